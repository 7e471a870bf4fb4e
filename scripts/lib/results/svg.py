"""Plain plots as self-contained SVG documents: white ground, few colours that also differ in brightness."""

import math
from xml.sax.saxutils import escape

DARK, BLUE, ORANGE, LIGHT = "#1b1b1b", "#0072b2", "#e08a00", "#9ecae1"
GRID, AXIS, TEXT = "#e3e3e3", "#777777", "#333333"


class Canvas:
    def __init__(self, width, height):
        self.width, self.height = width, height
        self.body = []

    def line(self, x1, y1, x2, y2, colour, width=1.0, dash=""):
        extra = f' stroke-dasharray="{dash}"' if dash else ""
        self.body.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
                         f'stroke-width="{width}"{extra}/>')

    def polyline(self, points, colour, width=2.0, dash=""):
        extra = f' stroke-dasharray="{dash}"' if dash else ""
        text = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.body.append(f'<polyline points="{text}" fill="none" stroke="{colour}" stroke-width="{width}" '
                         f'stroke-linejoin="round"{extra}/>')

    def polygon(self, points, colour):
        text = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.body.append(f'<polygon points="{text}" fill="{colour}"/>')

    def rectangle(self, x, y, width, height, colour, title=""):
        """`title` is shown when the pointer rests on the rectangle; empty: none."""
        end = f"><title>{escape(title)}</title></rect>" if title else "/>"
        self.body.append(f'<rect x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}" '
                         f'fill="{colour}"{end}')

    def circle(self, x, y, radius, colour):
        self.body.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{colour}" fill-opacity="0.75"/>')

    def text(self, x, y, text, size=13, anchor="start", colour=TEXT, bold=False, turned=False):
        extra = ' font-weight="bold"' if bold else ""
        extra += f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turned else ""
        self.body.append(f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" '
                         f'fill="{colour}"{extra}>{escape(text)}</text>')

    def document(self):
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
                f'width="{self.width}" height="{self.height}" '
                'font-family="Helvetica, Arial, \'DejaVu Sans\', sans-serif">\n'
                f'<rect width="{self.width}" height="{self.height}" fill="#ffffff"/>\n'
                + "\n".join(self.body) + "\n</svg>\n")


class Axis:
    """Maps values to pixels, linearly or by the logarithm."""

    def __init__(self, low, high, start, end, logarithmic=False):
        self.scale = math.log10 if logarithmic else float
        self.low, self.high, self.start, self.end = self.scale(low), self.scale(high), start, end

    def at(self, value):
        return self.start + (self.scale(value) - self.low) / (self.high - self.low) * (self.end - self.start)


def steps(points):
    """The corners of a line that keeps each value until the next one."""
    corners = []
    for i, (x, y) in enumerate(points):
        if i:
            corners.append((x, points[i - 1][1]))
        corners.append((x, y))
    return corners


def horizontal_grid(canvas, axis, ticks, left, right, label):
    for tick in ticks:
        canvas.line(left, axis.at(tick), right, axis.at(tick), GRID)
        canvas.text(left - 8, axis.at(tick) + 4, label(tick), 12, "end")


def distributions(title, curves):
    """`curves`: (label, colour, width, dash, completion times in seconds)."""
    canvas = Canvas(900, 470)
    left, right, top, bottom = 75, 870, 95, 405
    every = [time for curve in curves for time in curve[4]]
    x = Axis(min(every) * 0.9, max(every) * 1.1, left, right, logarithmic=True)
    y = Axis(0, 100, bottom, top)
    canvas.text(left, 32, title, 17, bold=True)
    horizontal_grid(canvas, y, range(0, 101, 25), left, right, lambda tick: f"{tick} %")
    canvas.text(22, (top + bottom) / 2, "jobs that are done", 13, "middle", turned=True)
    for tick, label in ((30, "30 s"), (60, "1 min"), (120, "2 min"), (300, "5 min"), (600, "10 min"),
                        (1800, "30 min"), (3600, "1 h"), (7200, "2 h"), (18000, "5 h"), (36000, "10 h"),
                        (72000, "20 h"), (180000, "50 h")):
        if min(every) * 0.9 <= tick <= max(every) * 1.1:
            canvas.line(x.at(tick), top, x.at(tick), bottom, GRID)
            canvas.text(x.at(tick), bottom + 18, label, 12, "middle")
    canvas.line(left, bottom, right, bottom, AXIS)
    canvas.text((left + right) / 2, bottom + 45, "job completion time (logarithmic)", 13, "middle")
    at = left
    for label, colour, width, dash, times in curves:
        times = sorted(times)
        # Two hundred points are as good as a thousand.
        stride = max(1, len(times) // 200)
        points = [(x.at(times[0]), y.at(0))]
        for i in list(range(0, len(times), stride)) + [len(times) - 1]:
            points.append((x.at(times[i]), y.at(100 * (i + 1) / len(times))))
        canvas.polyline(points, colour, width, dash)
        canvas.line(at, 65, at + 32, 65, colour, width, dash)
        canvas.text(at + 38, 70, label, 12)
        at += 56 + 6.4 * len(label)
    return canvas.document()


def bars(title, unit, groups, series, values, marks, mark_label):
    """`values[group][series]`; `series`: (name, colour); `marks[group][series]`: the goal, or None."""
    canvas = Canvas(900, 440)
    left, right, top, bottom = 75, 870, 95, 375
    highest = max(max(v for row in values for v in row), max(m or 0 for row in marks for m in row), 1.0)
    y = Axis(0, highest * 1.08, bottom, top)
    canvas.text(left, 32, title, 17, bold=True)
    at = left
    for name, colour in series:
        canvas.rectangle(at, 57, 16, 14, colour)
        canvas.text(at + 23, 69, name, 13)
        at += 48 + 7.2 * len(name)
    canvas.line(at, 64, at + 22, 64, "#c00000", 3)
    canvas.text(at + 29, 69, mark_label, 13)
    step = 0.25 if highest <= 2 else 0.5
    horizontal_grid(canvas, y, [i * step for i in range(int(highest * 1.08 / step) + 1)], left, right,
                    lambda tick: f"{tick:.2f}")
    canvas.text(22, (top + bottom) / 2, unit, 13, "middle", turned=True)
    width = (right - left) / len(groups)
    bar = width * 0.8 / len(series)
    for g, group in enumerate(groups):
        start = left + g * width + width * 0.1
        for s, (_, colour) in enumerate(series):
            x = start + s * bar
            canvas.rectangle(x + 2, y.at(values[g][s]), bar - 4, bottom - y.at(values[g][s]), colour)
            canvas.text(x + bar / 2, bottom - 12, f"{values[g][s]:.3f}", 13, "middle",
                        DARK if colour in (LIGHT, ORANGE) else "#ffffff", bold=True)
            if marks[g][s]:
                canvas.line(x, y.at(marks[g][s]), x + bar, y.at(marks[g][s]), "#c00000", 3)
        canvas.text(start + width * 0.4, bottom + 22, group, 13, "middle")
    canvas.line(left, y.at(1), right, y.at(1), AXIS, 1, "5 4")
    canvas.line(left, bottom, right, bottom, AXIS)
    return canvas.document()


def growth(title, across, up, curves, marks, mark_label):
    """Lines with both axes logarithmic. `curves`: (label, colour, dash, points (x, milliseconds)); `marks`: points of goals."""
    canvas = Canvas(900, 520)
    left, right, top, bottom = 95, 870, 115, 450
    every = [point for curve in curves for point in curve[3]] + marks
    x = Axis(min(p[0] for p in every) / 1.5, max(p[0] for p in every) * 1.5, left, right, logarithmic=True)
    y = Axis(min(p[1] for p in every) / 1.5, max(p[1] for p in every) * 1.5, bottom, top, logarithmic=True)
    canvas.text(left, 32, title, 17, bold=True)

    def decades(axis):
        return [10.0 ** d for d in range(math.ceil(axis.low), math.floor(axis.high) + 1)]

    horizontal_grid(canvas, y, decades(y), left, right, lambda tick: f"{tick:g} ms")
    canvas.text(22, (top + bottom) / 2, up, 13, "middle", turned=True)
    for tick in decades(x):
        canvas.line(x.at(tick), top, x.at(tick), bottom, GRID)
        canvas.text(x.at(tick), bottom + 18, f"{tick:,.0f}", 12, "middle")
    canvas.line(left, bottom, right, bottom, AXIS)
    canvas.text((left + right) / 2, bottom + 45, across, 13, "middle")
    at = left
    for label, colour, dash, points in curves:
        canvas.polyline([(x.at(a), y.at(b)) for a, b in points], colour, 2.2, dash)
        for a, b in points:
            canvas.circle(x.at(a), y.at(b), 4, colour)
        canvas.line(at, 65, at + 32, 65, colour, 2.2, dash)
        canvas.text(at + 38, 70, label, 12)
        at += 56 + 6.4 * len(label)
    for a, b in marks:
        canvas.line(x.at(a) - 9, y.at(b), x.at(a) + 9, y.at(b), "#c00000", 3)
    canvas.line(left, 88, left + 22, 88, "#c00000", 3)
    canvas.text(left + 38, 93, mark_label, 12)
    return canvas.document()


def course(title, samples, others, total_gpus):
    """One job: its gradient noise and batch size, its GPUs, and how many other jobs there are.

    `samples`: as the simulator writes them. `others`: (time in seconds, number).
    """
    canvas = Canvas(900, 700)
    left, right = 85, 870
    begin = samples[0]["time_s"]
    end = samples[-1]["time_s"]
    x = Axis(0, (end - begin) / 3600, left, right)
    hours = lambda seconds: x.at((seconds - begin) / 3600)
    canvas.text(left, 32, title, 17, bold=True)

    def panel(top, bottom, heading, axis, ticks, label):
        canvas.text(left, top - 12, heading, 14, bold=True)
        horizontal_grid(canvas, axis, ticks, left, right, label)
        step = next(s for s in (0.5, 1, 2, 5, 10, 20) if (end - begin) / 3600 / s <= 14)
        for i in range(int((end - begin) / 3600 / step) + 1):
            canvas.line(x.at(i * step), top, x.at(i * step), bottom, GRID)
            canvas.text(x.at(i * step), bottom + 17, f"{i * step:g}", 12, "middle")
        canvas.line(left, bottom, right, bottom, AXIS)

    values = [s[key] for s in samples for key in ("noise_scale", "batch_size")]
    noise = Axis(min(values) / 1.3, max(values) * 1.3, 300, 90, logarithmic=True)
    decades = range(math.ceil(math.log10(min(values) / 1.3)), math.floor(math.log10(max(values) * 1.3)) + 1)
    panel(90, 300, "Samples (logarithmic)", noise, [10.0 ** d for d in decades], lambda tick: f"{tick:,.0f}")
    canvas.line(left + 200, 73, left + 232, 73, BLUE, 2.2)
    canvas.text(left + 240, 78, "gradient noise scale", 13)
    canvas.line(left + 400, 73, left + 432, 73, ORANGE, 2.2, "6 3")
    canvas.text(left + 440, 78, "batch size", 13)
    canvas.polyline(steps([(hours(s["time_s"]), noise.at(s["noise_scale"])) for s in samples]), BLUE, 2.2)
    canvas.polyline(steps([(hours(s["time_s"]), noise.at(s["batch_size"])) for s in samples]), ORANGE, 2.2, "6 3")
    gpus = Axis(0, total_gpus, 490, 370)
    panel(370, 490, "GPUs of the job", gpus, range(0, total_gpus + 1, 16), str)
    canvas.polyline(steps([(hours(s["time_s"]), gpus.at(s["gpus"])) for s in samples]), DARK, 2.2)
    at_begin = [n for t, n in others if t <= begin][-1:] or [0]
    inside = [(begin, at_begin[0])] + [(t, n) for t, n in others if begin < t <= end]
    inside.append((end, inside[-1][1]))
    most = max(n for _, n in inside)
    tick = next(t for t in (1, 2, 5, 10, 20, 50, 100) if most / t <= 4)
    number = Axis(0, max(most, 1), 640, 560)
    panel(560, 640, "Other jobs in the system", number, range(0, most + 1, tick), str)
    canvas.polyline(steps([(hours(t), number.at(n)) for t, n in inside]), AXIS, 1.6)
    canvas.text((left + right) / 2, 682, "hours since the job first measured itself", 13, "middle")
    return canvas.document()


def dots(title, panels):
    """`panels`: (heading, groups); `groups`: (label, seconds, what to say without any, whether it stands out).

    A dot per value, a bar at the mean; logarithmic where values differ much.
    """
    row_height, heading_height = 26, 84
    canvas = Canvas(900, 50 + sum(heading_height + row_height * len(groups) for _, groups in panels))
    left, right, top = 150, 850, 60
    canvas.text(30, 32, title, 17, bold=True)
    for heading, groups in panels:
        canvas.text(30, top + 14, heading, 14, bold=True)
        every = [value for _, values, _, _ in groups for value in values]
        logarithmic = max(every) > 6 * min(every)
        most = max(every) * 1.08
        if logarithmic:
            ticks = [t for t in (0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500) if min(every) * 0.6 <= t <= most]
            axis = Axis(min(every) * 0.6, most, left, right, logarithmic=True)
        else:
            step = next(s for s in (0.5, 1, 2, 5, 10, 20, 50, 100, 200) if most / s <= 9)
            ticks = [i * step for i in range(int(most / step) + 1)]
            axis = Axis(0, most, left, right)
        bottom = top + 34 + row_height * len(groups)
        for tick in ticks:
            canvas.line(axis.at(tick), top + 26, axis.at(tick), bottom, GRID)
            canvas.text(axis.at(tick), bottom + 17, f"{tick:g} s", 12, "middle")
        if logarithmic:
            canvas.text(right, top + 14, "logarithmic", 12, "end")
        canvas.line(left, bottom, right, bottom, AXIS)
        for row, (label, values, otherwise, stands_out) in enumerate(groups):
            y = top + 46 + row_height * row
            canvas.text(left - 12, y + 4, label, 13, "end", bold=stands_out)
            if not values:
                canvas.text(left + 10, y + 4, otherwise, 12, colour=AXIS)
                continue
            middle = axis.at(sum(values) / len(values))
            canvas.line(middle, y - 10, middle, y + 10, DARK, 3)
            for value in values:
                canvas.circle(axis.at(value), y, 4.5, ORANGE if stands_out else BLUE)
        top = bottom + heading_height - 34
    return canvas.document()
