# SPDX-License-Identifier: BSD-3-Clause
"""Charts as SVG, in Python's standard library alone: shapes, and charts of lines over two axes.

A drawing has a background of its own and follows the reader's light or dark theme. Colours are names of COLORS, each of which is
legible on both backgrounds, or "ink", "faint" and "grid", which change with the theme.
"""
import csv
import math
import os
import sys
import textwrap
from xml.sax.saxutils import escape

COLORS = {"blue": "#2f7fc1", "pale_blue": "#5b8fb8", "green": "#2f8f4e", "pale_green": "#5f9468", "red": "#d0453f",
          "pale_red": "#b8706c", "purple": "#8d6cc9", "orange": "#c26d1e", "brown": "#9a7355", "pink": "#c05fa0",
          "olive": "#85861f", "cyan": "#238c9c", "gray": "#808080"}
LIGHT = {"paper": "#ffffff", "ink": "#222222", "faint": "#5c5c5c", "grid": "#dddddd"}
DARK = {"paper": "#16181d", "ink": "#e6e6e6", "faint": "#a3a3a3", "grid": "#3a3d44"}


def style():
    def rules(theme):
        return "".join(".f-%s{fill:%s}.s-%s{stroke:%s}" % (name, color, name, color) for name, color in theme.items())
    return "<style>%s%s@media(prefers-color-scheme:dark){%s}</style>" % (rules(COLORS), rules(LIGHT), rules(DARK))


class Drawing:
    def __init__(self, width, height):
        self.parts = ['<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" '
                      'font-family="sans-serif">' % (width, height, width, height), style(),
                      '<rect width="100%" height="100%" class="f-paper"/>']

    def text(self, x, y, words, anchor="start", size=12, weight="normal", color="ink", turned=False):
        self.parts.append('<text x="%.1f" y="%.1f" text-anchor="%s" font-size="%d" font-weight="%s" class="f-%s"%s>%s</text>' % (
            x, y, anchor, size, weight, color, ' transform="rotate(-90 %.1f %.1f)"' % (x, y) if turned else "", escape(words)))

    def lines(self, x, y, words, width):
        """A note in small letters, in lines of that width. Returns the place of a further line."""
        for part in textwrap.wrap(words, int(width / 5.2)):
            self.text(x, y, part, size=10, color="faint")
            y += 13
        return y

    def line(self, x1, y1, x2, y2, color="ink", width=1.0):
        self.path([(x1, y1), (x2, y2)], color, width)

    def path(self, points, color, width=1.5, dashes=""):
        self.parts.append('<polyline points="%s" fill="none" class="s-%s" stroke-width="%.1f"%s/>' % (
            " ".join("%.1f,%.1f" % point for point in points), color, width, ' stroke-dasharray="%s"' % dashes if dashes else ""))

    def rectangle(self, x, y, width, height, color):
        self.parts.append('<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" class="f-%s"/>' % (x, y, width, height, color))

    def area(self, points, color):
        self.parts.append('<polygon points="%s" class="f-%s" fill-opacity="0.15"/>' % (
            " ".join("%.1f,%.1f" % point for point in points), color))

    def dot(self, x, y, color, radius=3.0):
        self.parts.append('<circle cx="%.1f" cy="%.1f" r="%.1f" class="f-%s"/>' % (x, y, radius, color))

    def save(self, path):
        with open(path, "w") as file:
            file.write("\n".join(self.parts + ["</svg>", ""]))


def step_of(most, ticks_max):
    """A round number that needs at most so many ticks up to `most`."""
    size = 10.0 ** math.floor(math.log10(most / ticks_max)) if most > 0 else 0.1
    return next(size * factor for factor in (1, 2, 5, 10) if size * factor * ticks_max >= most)


class Axis:
    """words: quantity and unit. low, high: its ends. log: logarithmic. ticks: None: round numbers."""

    def __init__(self, words, low, high, log=False, ticks=None):
        self.words, self.log = words, log
        self.low, self.high = self.scaled(low), self.scaled(high)
        self.ticks = self.round_ticks(high) if ticks is None else ticks

    def scaled(self, number):
        return math.log(number) if self.log else number

    def at(self, number):
        """The number's place, 0 to 1."""
        return (self.scaled(number) - self.low) / ((self.high - self.low) or 1)

    def round_ticks(self, high):
        if self.log:
            lowest, highest = (math.floor(end / math.log(10)) for end in (self.low, self.high))
            return [10.0 ** power for power in range(lowest, highest + 1) if -1e-9 <= self.at(10.0 ** power) <= 1]
        step = step_of(high, 6)
        return [step * number for number in range(int(high / step + 1e-9) + 1)]


class Line:
    """points: (x, y) or (x, y, deviation), by x. steps: a histogram, where y holds up to the next x. band: (x, low, high), by x."""

    def __init__(self, label, points, color, dashes="", dots=True, steps=False, band=()):
        self.label, self.points, self.color, self.dashes, self.dots, self.steps = label, points, color, dashes, dots, steps
        self.band = band

    def highest(self):
        return max([point[1] + (point[2] if len(point) > 2 else 0) for point in self.points] + [high for _, _, high in self.band])

    def lowest(self):
        return min([point[1] for point in self.points] + [low for _, low, _ in self.band])


class Panel:
    """lines: those without points are left out. x: makes the axis of all x; high: of y; None: that of the data. log: the y axis is
    logarithmic, for numbers above 0."""

    def __init__(self, title, lines, x, y_words, high=None, log=False):
        self.title = title
        self.lines = [line for line in lines if line.points]
        self.x = x([point[0] for line in self.lines for point in line.points] or [1])
        low = min([line.lowest() for line in self.lines] + [1]) / 1.05 if log else 0
        self.y = Axis(y_words, low, high or max([line.highest() for line in self.lines] + [1e-9]) * 1.05, log=log)


WIDTH, HEIGHT = 460, 300                       # of a panel
LEFT, RIGHT, TOP, BOTTOM = 66, 14, 30, 46      # of its margins
HEAD, ROW, CHAR = 58, 16, 6.2                  # title and source above; a line of the legend; a character's width there


def draw_line(drawing, line, place):
    if line.band:
        upper, lower = [place(x, high) for x, _, high in line.band], [place(x, low) for x, low, _ in line.band]
        drawing.area(upper + lower[::-1], line.color)
    spots = [place(point[0], point[1]) for point in line.points]
    corners = [(b[0], a[1]) for a, b in zip(spots, spots[1:])] if line.steps else []
    path = [spot for pair in zip(spots, corners) for spot in pair] + spots[-1:] if line.steps else spots
    drawing.path(path, line.color, dashes=line.dashes)
    for point, (x, y) in zip(line.points, spots):
        if line.dots:
            drawing.dot(x, y, line.color)
        if len(point) > 2 and point[2] > 0:
            low, high = (place(point[0], point[1] + sign * point[2])[1] for sign in (-1, 1))
            drawing.line(x, low, x, high, line.color)


def draw_panel(drawing, panel, left, top):
    width, height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    left, top = left + LEFT, top + TOP

    def place(x, y):
        return left + width * panel.x.at(x), top + height * (1 - max(0.0, panel.y.at(y)))
    drawing.text(left + width / 2, top - 10, panel.title, "middle", 12, "bold")
    for tick in panel.x.ticks:
        x = left + width * panel.x.at(tick)
        drawing.line(x, top, x, top + height, "grid")
        drawing.text(x, top + height + 16, "%g" % tick, "middle", 10)
    for tick in panel.y.ticks:
        _, y = place(math.exp(panel.x.low) if panel.x.log else panel.x.low, tick)
        drawing.line(left, y, left + width, y, "grid")
        drawing.text(left - 6, y + 4, "%g" % tick, "end", 10)
    drawing.text(left + width / 2, top + height + 36, panel.x.words, "middle", 11)
    drawing.text(left - 50, top + height / 2, panel.y.words, "middle", 11, turned=True)
    for line in panel.lines:
        draw_line(drawing, line, place)


def legend(drawing, lines, left, top, width):
    """Draws the label of each line, in rows of that width. Returns the height."""
    x, y = left, top
    for line in lines:
        needed = 38 + CHAR * len(line.label)
        if x > left and x + needed > left + width:
            x, y = left, y + ROW
        if drawing:
            drawing.path([(x, y), (x + 22, y)], line.color, dashes=line.dashes)
            drawing.text(x + 26, y + 4, line.label, size=11)
        x += needed
    return y + ROW - top


def figure(path, title, source, panels, columns):
    """Draws the panels in rows of so many columns, below one legend. source: what the chart is to be compared with."""
    columns = min(columns, len(panels))
    lines = list({line.label: line for panel in panels for line in panel.lines}.values())
    width = max(WIDTH * columns, 640)
    top = HEAD + 12 + legend(None, lines, LEFT, 0, width - LEFT - RIGHT)
    drawing = Drawing(width, top + HEIGHT * math.ceil(len(panels) / columns))
    drawing.text(16, 24, title, size=15, weight="bold")
    drawing.text(16, 42, source, size=11, color="faint")
    legend(drawing, lines, LEFT, HEAD + 4, width - LEFT - RIGHT)
    for number, panel in enumerate(panels):
        draw_panel(drawing, panel, WIDTH * (number % columns), top + HEIGHT * (number // columns))
    drawing.save(path)


def read(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def main(usage, draw, points="points.csv"):
    """Calls draw(rows of points, folder) for the folder on the command line; returns the exit status."""
    if sys.argv[1:] in (["--help"], ["-h"]):
        sys.stdout.write(usage)
        return 0
    if len(sys.argv) != 2:
        sys.stderr.write(usage)
        return 64
    try:
        draw(read(os.path.join(sys.argv[1], points)), sys.argv[1])
    except OSError as e:
        sys.stderr.write("%s: %s\n" % (os.path.basename(sys.argv[0]), e))
        return 1
    return 0
