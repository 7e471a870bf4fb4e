"""AdaptDL's own results: scaling rules, and the order of samples."""

import json
import os
import unittest

import torch.nn.functional as F
from plain import network, samples, sgd
from support import JobTest

import adaptdl.torch as adl
from adaptdl.torch import scaling_rules

VECTORS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "vectors")


class VectorsTest(JobTest):
    """AdaptDL's own results, through this package."""
    def vectors(self, name):
        with open(os.path.join(VECTORS, name), encoding="utf-8") as file:
            return json.load(file)

    def test_scaling_rules(self):
        for case in self.vectors("scaling_rules.json")["gain"]:
            sqr, var, scale = case["sqr_avg"], case["var_avg"], case["scale"]
            groups = len(sqr)
            for rule, expected in ((scaling_rules.AdaScale(),
                                    case["adascale_lr"]), (scaling_rules.AdamScale(), case["adamscale_lr"]),
                                   (scaling_rules.LinearScale(), [case["linear"]] * groups),
                                   (scaling_rules.SqrtScale(), [case["sqrt"]] * groups)):
                for found, factor in zip(rule.factors(scale, sqr, var), expected):
                    self.assertAlmostEqual(found, factor, delta=1e-6 * abs(factor))

    def test_rules_asked_as_programs_ask_them(self):
        ours = network()
        optimizer = sgd(ours)
        for rule, expected in ((scaling_rules.LinearScale(), 4.0), (scaling_rules.SqrtScale(), 2.0)):
            adl.AdaptiveDataParallel(ours, optimizer, scaling_rule=rule, name=type(rule).__name__)._engine.close()
            self.assertEqual(rule.scale_lr(4), expected)
        loader = adl.AdaptiveDataLoader(samples(), batch_size=4)
        legw = scaling_rules.LEGWScale(2, len(samples()))
        model = adl.AdaptiveDataParallel(ours, optimizer, scaling_rule=legw)
        for _, inputs, targets in loader:
            progress = model.gns.get_progress()
            self.assertAlmostEqual(legw.scale_lr(4), min(2, 2 * progress * 4 / (2 * 4 * len(samples()))))
            optimizer.zero_grad()
            F.mse_loss(model(inputs), targets).backward()
            optimizer.step()

    def test_legw(self):
        for case in self.vectors("scaling_rules.json")["legw"]:
            rule = scaling_rules.LEGWScale(case["base_warmup_epochs"], case["data_size"])
            found = rule.factors(case["scale"], [1.0], [0.0], case["progress"], case["batch_size"])
            self.assertAlmostEqual(found[0], case["lr_factor"], delta=1e-6 * abs(case["lr_factor"]) + 1e-12)

    def test_partitions_of_unshuffled_data(self):
        for case in self.vectors("sampler.json")["partitions"]:
            if case["shuffle"]:
                continue
            sampler = adl.ElasticSampler(range(case["n"]), shuffle=False)
            sampler.num_replicas = case["num_replicas"]
            sampler.set_epoch(case["epoch"], case["index"])
            for rank, expected in enumerate(case["indices_by_rank"]):
                sampler.rank = rank
                self.assertEqual(list(sampler), expected)
                self.assertEqual(len(sampler), case["len"])


if __name__ == "__main__":
    unittest.main()
