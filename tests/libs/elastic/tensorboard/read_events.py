"""Prints the scalars that TensorBoard reads from a folder: "tag step value" per point."""

import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0, "tensors": 0})
events.Reload()
for tag in sorted(events.Tags()["scalars"]):
    for point in events.Scalars(tag):
        print(tag, point.step, point.value)
