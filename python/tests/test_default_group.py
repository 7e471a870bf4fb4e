"""torch.distributed's default group among replicas."""

import os
import subprocess
import sys
import unittest
from unittest import mock

import torch
import torch.distributed as dist
from support import JobTest, run

import adaptdl.torch as adl
from adaptdl import Error, _job, env

# As a program has it that imports the function itself.
plain_all_gather = dist.all_gather


class AloneTest(JobTest):
    def setUp(self):
        super().setUp()
        adl.init_process_group("gloo")

    def test_says_who_this_is(self):
        self.assertTrue(dist.is_initialized())
        self.assertEqual((dist.get_rank(), dist.get_world_size(), dist.get_backend()), (0, 1, "adaptdl"))
        self.assertEqual(dist.distributed_c10d.get_global_rank(dist.group.WORLD, 0), 0)
        self.assertEqual(dist.distributed_c10d.get_process_group_ranks(dist.group.WORLD), [0])
        # Before it is asked to tell anybody anything, it waits for nobody.
        self.assertFalse(_job.job().met)

    def test_every_collective_gives_the_own_value(self):
        values = torch.arange(4.0)
        for op in ("SUM", "AVG", "PRODUCT", "MIN", "MAX"):
            tensor = values.clone()
            dist.all_reduce(tensor, getattr(dist.ReduceOp, op))
            self.assertTrue(torch.equal(tensor, values))
        outputs = [torch.empty(4)]
        dist.all_gather(outputs, values)
        self.assertTrue(torch.equal(outputs[0], values))
        for collective, arguments in ((dist.broadcast, (values.clone(), 0)),
                                      (dist.reduce, (values.clone(), 0)),
                                      (dist.scatter, (torch.empty(4), [values])),
                                      (dist.reduce_scatter, (torch.empty(4), [values])),
                                      (dist.all_gather_into_tensor, (torch.empty(4), values)),
                                      (dist.reduce_scatter_tensor, (torch.empty(4), values)),
                                      (dist.all_to_all_single, (torch.empty(4), values))):
            collective(*arguments)
            self.assertTrue(torch.equal(arguments[0], values), collective)
        dist.barrier()

    def test_types_and_layouts(self):
        for tensor in (torch.tensor(3), torch.tensor([True, False]), torch.ones(2, 3, dtype=torch.bfloat16),
                       torch.arange(6.0).reshape(2, 3).t(), torch.tensor([1 + 2j]), torch.empty(0),
                       torch.ones(3, requires_grad=True), torch.ones(2, 3).half()):
            given = tensor.detach().clone()
            dist.all_reduce(tensor)
            self.assertTrue(torch.equal(tensor.detach(), given), tensor)
        with self.assertRaisesRegex(Error, "sparse"):
            dist.all_reduce(torch.ones(2, 2).to_sparse())

    def test_a_work_is_over(self):
        work = dist.all_reduce(torch.ones(2), async_op=True)
        self.assertTrue(work.is_completed())
        work.wait()
        self.assertTrue(work.get_future().done())

    def test_what_is_not_there_says_what_to_use(self):
        tensor = torch.ones(2)
        for call in (lambda: dist.new_group([0]), lambda: dist.new_group([0], backend="gloo"),
                     dist.new_subgroups, lambda: dist.send(tensor, 0), lambda: dist.recv(tensor),
                     lambda: dist.isend(tensor, 0), lambda: dist.irecv(tensor, 0), dist.monitored_barrier,
                     lambda: dist.batch_isend_irecv([dist.P2POp(dist.isend, tensor, 0)]),
                     lambda: dist.group.WORLD.send([tensor], 0, 0)):
            with self.assertRaisesRegex(Error, "adaptdl.collective.gather"):
                call()
        with self.assertRaisesRegex(Error, "AdaptiveDataParallel"):
            torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))

    def test_there_is_one_default_group(self):
        with self.assertRaisesRegex((RuntimeError, ValueError), "twice"):
            dist.init_process_group("gloo", init_method="tcp://127.0.0.1:0", rank=0, world_size=1)

    def test_the_program_may_destroy_it(self):
        dist.destroy_process_group()
        self.assertFalse(dist.is_initialized())
        with self.assertRaisesRegex((RuntimeError, ValueError), "init_process_group"):
            dist.all_gather_object([None], 1)
        # The replica stays one.
        self.assertEqual(adl.current_epoch(), None)

    def test_it_goes_with_the_job_and_comes_with_the_next(self):
        hook, gather_object = sys.excepthook, dist.all_gather_object
        _job.close_job()
        self.assertFalse(dist.is_initialized())
        self.assertNotEqual(dist.all_gather_object, gather_object)
        adl.init_process_group()
        self.assertTrue(dist.is_initialized())
        self.assertIs(sys.excepthook, hook)

    def test_what_talks_to_other_processes_itself_is_refused(self):
        model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.SyncBatchNorm(2))
        with self.assertRaisesRegex(Error, "use BatchNorm"):
            adl.AdaptiveDataParallel(model, torch.optim.SGD(model.parameters(), lr=0.1))
        from torch.distributed.optim import ZeroRedundancyOptimizer
        model = torch.nn.Linear(2, 2)
        optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1)
        with self.assertRaisesRegex(Error, "use the optimiser that it wraps"):
            adl.AdaptiveDataParallel(model, optimizer)

    def test_without_what_a_lost_replica_had_to_say_all_are_restarted(self):
        one = torch.ones(2)
        calls = {
            "broadcast": lambda: dist.broadcast(one, 1),
            "scatter": lambda: dist.scatter(torch.empty(2), [one, one]),
            "reduce_scatter": lambda: dist.reduce_scatter(torch.empty(2), [one, one]),
            "all_gather_into_tensor": lambda: dist.all_gather_into_tensor(torch.empty(4), one),
            "all_gather of PyTorch itself": lambda: plain_all_gather([torch.empty(2), torch.empty(2)], one),
            "broadcast_object_list": lambda: dist.broadcast_object_list([1], src=1)
        }
        # As if there had been two when they were asked.
        with mock.patch.object(env, "num_replicas", return_value=2):
            for name, call in calls.items():
                with self.subTest(name), self.assertLogs("adaptdl.torch", "ERROR"):
                    with self.assertRaises(SystemExit) as end:
                        call()
                    self.assertEqual(end.exception.code, 75)
            # A list gets as many as are left.
            outputs = [torch.empty(2), torch.empty(2)]
            dist.all_gather(outputs, one)
            self.assertEqual(len(outputs), 1)

    def test_objects(self):
        found = [None]
        dist.all_gather_object(found, {"a": 1})
        self.assertEqual(found, [{"a": 1}])
        found = ["b", 2]
        dist.broadcast_object_list(found, src=0)
        self.assertEqual(found, ["b", 2])


class WithoutTest(JobTest):
    def test_a_group_of_the_programs_own_comes_first(self):
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        try:
            with self.assertRaisesRegex(Error, "leave its init_process_group\\(\\) away"):
                adl.init_process_group()
            self.assertIsNone(_job.current())
        finally:
            dist.destroy_process_group()

    def test_so_it_does_where_a_loader_has_opened_the_job(self):
        _job.job()
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        try:
            with self.assertRaisesRegex(Error, "leave its init_process_group\\(\\) away"):
                adl.init_process_group()
        finally:
            dist.destroy_process_group()

    def test_who_makes_none_loads_nothing_of_it(self):
        code = "import sys, adaptdl.torch; assert not any('torch._group' in name for name in sys.modules)"
        environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
        subprocess.run([sys.executable, "-c", code], check=True, env=environment)



class ReplicasTest(unittest.TestCase):
    def expect(self, job, *lines, replicas=3, environment=None):
        code, output = run(job, replicas=replicas, environment=environment)
        self.assertEqual(code, 0, output)
        for line in lines:
            self.assertEqual(output.count(line), replicas, output)

    def test_every_collective(self):
        self.expect("distributed", "all of torch.distributed")

    def test_every_collective_within_a_loop(self):
        self.expect("distributed_in_loop", "all of torch.distributed")

    def test_what_is_called_differently_is_an_error_and_no_hang(self):
        code, output = run("distributed_differently", replicas=2)
        self.assertNotEqual(code, 0)
        self.assertIn("replicas call different functions of torch.distributed", output)

    def test_inside_of_backward_is_refused(self):
        code, output = run("distributed_in_backward", replicas=2)
        self.assertNotEqual(code, 0)
        self.assertIn("inside of backward()", output)

    def test_new_groups_are_refused_at_once_by_those_who_are_no_members(self):
        self.expect("distributed_new_group",
                    "Error: torch.distributed's new_group() is not there",
                    replicas=2)

    def test_processes_that_read_know_who_they_read_for(self):
        self.expect("distributed_in_workers", "workers: True", replicas=2)


if __name__ == "__main__":
    unittest.main()
