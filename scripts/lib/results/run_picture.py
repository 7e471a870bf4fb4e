#!/usr/bin/env python3
"""One picture of one run of the simulator: the distribution of completion times, the GPUs in use over time, and one bar per
job. Made of the JSON of `adaptdl-sim replay -o json --timeline`."""

import argparse
import collections
import json
import math
import pathlib

import simulator
import svg

WIDTH, LEFT, RIGHT = 1200, 70, 1170
PANEL_TOP, PANEL_HEIGHT, GAP = 105, 240, 75
TALLEST_ROW, TALLEST_TIMELINE = 7, 1600
HOUR = 3600
ALL = "#222222"
# Told apart by most people with colour blindness, too (Okabe and Ito).
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#b8a800", "#888888")
TIMES = (10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 18000, 36000, 72000, 180000, 360000)


def tick_step(span):
    """A step that gives at most 12 ticks: 1, 2 or 5 times a power of ten."""
    power = 10 ** math.floor(math.log10(span / 12))
    return next((factor * power for factor in (1, 2, 5) if span / (factor * power) <= 12), 10 * power)


def ticks(most):
    step = tick_step(most)
    return [i * step for i in range(int(most / step + 1e-9) + 1)]


def duration(seconds):
    if seconds < 60:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.3g} min" if seconds < HOUR else f"{seconds / HOUR:.3g} h"


class Picture:
    def __init__(self, title, timeline):
        self.jobs, self.gpus = timeline["jobs"], timeline["gpus"]
        self.gpu_types = timeline["gpu_types"]
        self.row = min(TALLEST_ROW, TALLEST_TIMELINE / len(self.jobs))
        self.bottom = PANEL_TOP + 2 * (PANEL_HEIGHT + GAP) + self.row * len(self.jobs)
        self.canvas = svg.Canvas(WIDTH, math.ceil(self.bottom) + 55)
        names = sorted({job["application"] for job in self.jobs})
        self.colours = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(names)}
        self.time = svg.Axis(0, max(job["completed_s"] for job in self.jobs), LEFT, RIGHT)
        self.canvas.text(LEFT, 34, title, 20, bold=True)
        self.legend()

    def draw(self):
        self.distribution(PANEL_TOP)
        self.usage(PANEL_TOP + PANEL_HEIGHT + GAP)
        self.course(PANEL_TOP + 2 * (PANEL_HEIGHT + GAP))
        return self.canvas.document()

    def legend(self):
        at = LEFT
        for name, colour in self.colours.items():
            self.canvas.rectangle(at, 47, 14, 12, colour)
            self.canvas.text(at + 19, 58, name, 13)
            at += 42 + 7.5 * len(name)

    def heading(self, top, text):
        self.canvas.text(LEFT, top - 10, text, 15, bold=True)

    def hours(self, top, bottom):
        for hour in ticks(self.time.high / HOUR):
            x = self.time.at(hour * HOUR)
            self.canvas.line(x, top, x, bottom, svg.GRID)
            self.canvas.text(x, bottom + 17, f"{hour:g}", 12, "middle")
        self.canvas.line(LEFT, bottom, RIGHT, bottom, svg.AXIS)
        self.canvas.text((LEFT + RIGHT) / 2, bottom + 36, "hours since the start", 13, "middle")

    def distribution(self, top):
        bottom = top + PANEL_HEIGHT
        by_application = collections.defaultdict(list)
        for job in self.jobs:
            by_application[job["application"]].append(max(job["completed_s"] - job["submitted_s"], 1))
        every = sorted(time for times in by_application.values() for time in times)
        low, high = every[0] * 0.8, every[-1] * 1.3
        x = svg.Axis(low, high, LEFT, RIGHT, logarithmic=True)
        y = svg.Axis(0, 100, bottom, top)
        self.heading(top, "Job completion times (cumulative; black: all jobs)")
        svg.horizontal_grid(self.canvas, y, range(0, 101, 25), LEFT, RIGHT, lambda tick: f"{tick} %")
        for tick in TIMES:
            if low < tick < high:
                self.canvas.line(x.at(tick), top, x.at(tick), bottom, svg.GRID)
                self.canvas.text(x.at(tick), bottom + 17, duration(tick), 12, "middle")
        self.canvas.line(LEFT, bottom, RIGHT, bottom, svg.AXIS)
        curves = [(times, self.colours[name], 1.5) for name, times in sorted(by_application.items())]
        for times, colour, width in [*curves, (every, ALL, 2.6)]:
            points = [(time, 100 * (i + 1) / len(times)) for i, time in enumerate(sorted(times))]
            corners = svg.steps([(points[0][0], 0), *points])
            self.canvas.polyline([(x.at(time), y.at(part)) for time, part in corners], colour, width)
        marks = (("median", simulator.percentile(every, 50)), ("mean", simulator.mean(every)),
                 ("p99", simulator.percentile(every, 99)))
        for i, (name, time) in enumerate(marks):
            self.canvas.line(x.at(time), top, x.at(time), bottom, ALL, 1, "5 4")
            self.canvas.text(x.at(time) - 5, top + 16 * (i + 1), f"{name} {duration(time)}", 12, "end", ALL)

    def usage(self, top):
        bottom = top + PANEL_HEIGHT
        y = svg.Axis(0, self.gpus * 1.05, bottom, top)
        self.heading(top, "GPUs in use, by application (dashed: what the cluster has)")
        self.hours(top, bottom)
        svg.horizontal_grid(self.canvas, y, ticks(self.gpus), LEFT, RIGHT, lambda tick: f"{tick:g}")
        changes = collections.defaultdict(collections.Counter)
        for job in self.jobs:
            for segment in job["segments"]:
                changes[segment["start_s"]][job["application"]] += segment["gpus"]
                changes[segment["end_s"]][job["application"]] -= segment["gpus"]
        # The edges of each application's area: before and after each change.
        lower, upper = collections.defaultdict(list), collections.defaultdict(list)
        now = collections.Counter()
        for time, change in sorted(changes.items()):
            for applied in ({}, change):
                for name, gpus in applied.items():
                    now[name] += gpus
                below = 0
                for name in self.colours:
                    lower[name].append((self.time.at(time), y.at(below)))
                    below += now[name]
                    upper[name].append((self.time.at(time), y.at(below)))
        for name, colour in self.colours.items():
            self.canvas.polygon(upper[name] + lower[name][::-1], colour)
        self.canvas.line(LEFT, y.at(self.gpus), RIGHT, y.at(self.gpus), ALL, 1, "5 4")

    def course(self, top):
        self.heading(top, "Allocation, one row per job in order of submission (thicker: more GPUs; grey: waiting)")
        self.hours(top, self.bottom)
        thickest = math.log2(1 + self.gpus)
        middles = [top + (i + 0.5) * self.row for i in range(len(self.jobs))]
        for job, middle in zip(self.jobs, middles):
            height = max(self.row * 0.1, 0.4)
            begin, end = self.time.at(job["submitted_s"]), self.time.at(job["completed_s"])
            self.canvas.rectangle(begin, middle - height / 2, end - begin, height, "#aaaaaa")
        for job, middle in zip(self.jobs, middles):
            for segment in job["segments"]:
                height = self.row * (0.2 + 0.8 * math.log2(1 + segment["gpus"]) / thickest)
                begin, end = self.time.at(segment["start_s"]), self.time.at(segment["end_s"])
                self.canvas.rectangle(begin, middle - height / 2, max(end - begin, 0.5), height,
                                      self.colours[job["application"]], self.words(job, segment))

    def words(self, job, segment):
        kind = f"{segment['gpu_type']} " if len(self.gpu_types) > 1 else ""
        plural = "" if segment["gpus"] == 1 else "s"
        return f"{job['name']}: {segment['gpus']} {kind}GPU{plural} for {duration(segment['end_s'] - segment['start_s'])}"


def picture(title, run):
    """An SVG document. `run`: the JSON of one run, with its timeline."""
    return Picture(title, run["timeline"]).draw()


def main():
    parser = argparse.ArgumentParser(prog="plot-run.sh", description=__doc__)
    parser.add_argument("run", type=pathlib.Path, help="JSON of adaptdl-sim replay -o json --timeline")
    parser.add_argument("picture", type=pathlib.Path, help="SVG file to write")
    arguments = parser.parse_args()
    run = json.loads(arguments.run.read_text())
    if "timeline" not in run:
        parser.error(f"{arguments.run} has no timeline; give adaptdl-sim replay --timeline")
    arguments.picture.write_text(picture(f"{arguments.run.stem} under {run['policy']}", run))


if __name__ == "__main__":
    main()
