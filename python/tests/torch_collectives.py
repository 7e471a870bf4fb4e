"""What jobs.py runs of torch.distributed, among all replicas."""

import torch
import torch.distributed as dist

import adaptdl.collective


def check_distributed():
    """Every collective of torch.distributed, against what comes out by hand."""
    rank, size = dist.get_rank(), dist.get_world_size()
    same = torch.testing.assert_close
    mine = torch.arange(3.0) + 10 * rank
    everybodys = [torch.arange(3.0) + 10 * other for other in range(size)]
    stacked = torch.stack(everybodys)
    for op, expected in ((dist.ReduceOp.SUM, stacked.sum(0)), (dist.ReduceOp.AVG, stacked.mean(0)),
                         (dist.ReduceOp.PRODUCT, stacked.prod(0)), (dist.ReduceOp.MIN, stacked.amin(0)),
                         (dist.ReduceOp.MAX, stacked.amax(0))):
        tensor = mine.clone()
        assert dist.all_reduce(tensor, op) is None
        same(tensor, expected)
    for op, expected in (("BAND", 0), ("BOR", 2**size - 1), ("BXOR", 2**size - 1)):
        bits = torch.tensor([2**rank])
        dist.all_reduce(bits, getattr(dist.ReduceOp, op))
        assert bits.item() == expected, (op, bits)
    # What is added up in another order differs in its last bits.
    noise = torch.randn(1000, generator=torch.Generator().manual_seed(rank))
    dist.all_reduce(noise)
    assert len(set(adaptdl.collective.gather(noise.numpy().tobytes()))) == 1
    outputs = [torch.empty(3) for _ in range(size)]
    dist.all_gather(outputs, mine, async_op=True).wait()
    same(outputs, everybodys)
    whole = torch.empty(size, 3)
    dist.all_gather_into_tensor(whole, mine)
    same(whole, stacked)
    for root in range(size):
        tensor = mine.clone()
        dist.broadcast(tensor, root)
        same(tensor, everybodys[root])
        tensor = mine.clone()
        dist.reduce(tensor, root)
        same(tensor, stacked.sum(0) if rank == root else mine)
        outputs = [torch.empty(3) for _ in range(size)] if rank == root else None
        dist.gather(mine, outputs, root)
        assert rank != root or all(map(torch.equal, outputs, everybodys))
        tensor = torch.empty(3)
        dist.scatter(tensor, [part + 1 for part in everybodys] if rank == root else None, root)
        same(tensor, mine + 1)
    tensor = torch.empty(1)
    dist.reduce_scatter(tensor, [torch.tensor([float(rank + other)]) for other in range(size)])
    same(tensor, torch.tensor([float(sum(other + rank for other in range(size)))]))
    dist.reduce_scatter_tensor(tensor, torch.arange(float(size)) + rank)
    same(tensor, torch.tensor([float(sum(other + rank for other in range(size)))]))
    outputs = [torch.empty(2) for _ in range(size)]
    dist.all_to_all(outputs, [torch.tensor([float(rank), float(other)]) for other in range(size)])
    same(outputs, [torch.tensor([float(other), float(rank)]) for other in range(size)])
    tensor = torch.empty(size)
    dist.all_to_all_single(tensor, torch.full((size,), float(rank)))
    same(tensor, torch.arange(float(size)))
    dist.barrier()
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank})
    assert objects == [{"rank": other} for other in range(size)], objects
    objects = [f"of {rank}", rank]
    dist.broadcast_object_list(objects, src=size - 1)
    assert objects == [f"of {size - 1}", size - 1], objects
    objects = [None]
    dist.scatter_object_list(objects, list(range(size)) if rank == 0 else None, src=0)
    assert objects == [rank], objects
    objects = [None] * size if rank == 1 else None
    dist.gather_object(rank, objects, dst=1)
    assert rank != 1 or objects == list(range(size)), objects
    print("all of torch.distributed", flush=True)
