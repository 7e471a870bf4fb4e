#!/usr/bin/env python3
"""The replicas of a cluster's jobs over time, as it was: one bar per job, as thick as it has replicas. Made of the JSON of
`adaptdl timeline -o json`."""

import argparse
import datetime
import json
import pathlib

import svg
from run_picture import COLOURS, tick_step

WIDTH, LEFT, RIGHT, TOP = 1000, 110, 960, 62
REPLICA, GAP = 14, 12
WAITING = "#c8c8c8"


def seconds(text):
    """Of RFC 3339, as Unix time."""
    head, _, fraction = text.removesuffix("Z").removesuffix("+00:00").partition(".")
    whole = datetime.datetime.fromisoformat(head).replace(tzinfo=datetime.timezone.utc)
    return whole.timestamp() + (float("0." + fraction) if fraction else 0)


class Row:
    """A job; times are seconds since the picture's beginning."""

    def __init__(self, job, begin, end):
        self.name = job["name"]
        self.begin = seconds(job["submitTime"]) - begin
        self.end = (seconds(job["completionTime"]) if "completionTime" in job else end) - begin
        changes = [(seconds(change["time"]) - begin, change["replicas"]) for change in job["changes"]]
        ends = [time for time, _ in changes[1:]] + [self.end]
        # Replicas that a job gave up when it ended are told a moment after its end.
        self.stretches = [(start, min(stop, self.end), replicas)
                          for (start, replicas), stop in zip(changes, ends) if replicas > 0 and start < self.end]
        self.most = max((replicas for _, _, replicas in self.stretches), default=1)

    def words(self, start, stop, replicas):
        plural = "" if replicas == 1 else "s"
        return f"{self.name}: {replicas} replica{plural} for {stop - start:.1f} s"


def span(jobs):
    """Of all: from the first submission to the last that is told."""
    times = [seconds(job["submitTime"]) for job in jobs]
    for job in jobs:
        times += [seconds(change["time"]) for change in job["changes"]]
        times += [seconds(job["completionTime"])] if "completionTime" in job else []
    return min(times), max(times)


def picture(title, timeline):
    """An SVG document."""
    jobs = timeline["jobs"]
    begin, end = span(jobs)
    rows = [Row(job, begin, end) for job in jobs]
    bottom = TOP + sum(row.most * REPLICA + GAP for row in rows)
    canvas = svg.Canvas(WIDTH, bottom + 52)
    axis = svg.Axis(0, max(end - begin, 1), LEFT, RIGHT)
    canvas.text(LEFT, 32, title, 17, bold=True)
    step = tick_step(axis.high)
    for i in range(int(axis.high / step) + 1):
        canvas.line(axis.at(i * step), TOP - 8, axis.at(i * step), bottom, svg.GRID)
        canvas.text(axis.at(i * step), bottom + 17, f"{i * step:g}", 12, "middle")
    canvas.line(LEFT, bottom, RIGHT, bottom, svg.AXIS)
    canvas.text((LEFT + RIGHT) / 2, bottom + 38, "seconds since the first job was submitted", 13, "middle")
    top = TOP
    for index, row in enumerate(rows):
        floor = top + row.most * REPLICA
        canvas.text(LEFT - 12, floor - row.most * REPLICA / 2 + 4, row.name[:14], 13, "end", bold=True)
        canvas.rectangle(axis.at(row.begin), floor - 2, axis.at(row.end) - axis.at(row.begin), 2, WAITING,
                         f"{row.name}: from its submission to its end")
        for start, stop, replicas in row.stretches:
            left, width = axis.at(start), max(axis.at(stop) - axis.at(start), 0.5)
            canvas.rectangle(left, floor - replicas * REPLICA, width, replicas * REPLICA,
                             COLOURS[index % len(COLOURS)], row.words(start, stop, replicas))
            if width > 14:
                canvas.text(left + width / 2, floor - replicas * REPLICA / 2 + 5, str(replicas), 13, "middle", "#ffffff",
                            bold=True)
        top = floor + GAP
    return canvas.document()


def main():
    parser = argparse.ArgumentParser(prog="plot-timeline.sh", description=__doc__)
    parser.add_argument("timeline", type=pathlib.Path, help="JSON of adaptdl timeline -o json")
    parser.add_argument("picture", type=pathlib.Path, help="SVG file to write")
    parser.add_argument("--title", default="Replicas of each job", help="heading of the picture")
    arguments = parser.parse_args()
    timeline = json.loads(arguments.timeline.read_text())
    if not timeline.get("jobs"):
        parser.error(f"{arguments.timeline} has no jobs")
    arguments.picture.write_text(picture(arguments.title, timeline))


if __name__ == "__main__":
    main()
