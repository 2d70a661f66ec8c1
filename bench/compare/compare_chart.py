# SPDX-License-Identifier: BSD-3-Clause
"""The chart of one workload of `farbench compare`: a bar for each contestant, made of the CPU time of front end and back end.

The bar shows the medians of front end and back end. The thin line spans the extremes of their sum over the rounds.
"""
from xml.sax.saxutils import escape

WIDTH, LEFT, RIGHT, TOP, ROW, BAR, BOTTOM = 860, 310, 70, 86, 34, 18, 40
TICKS_MAX = 8
COLORS = {True: ("#1b6fae", "#8fc1e8"), False: ("#6b6b6b", "#bdbdbd")}  # is it ours?: colours of front end and back end


def head(width, height):
    return ['<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" '
            'font-family="sans-serif">' % (width, height, width, height),
            '<rect width="100%" height="100%" fill="white"/>']


def text(x, y, words, anchor="start", size=12, weight="normal", color="#222222"):
    return '<text x="%.1f" y="%.1f" text-anchor="%s" font-size="%d" font-weight="%s" fill="%s">%s</text>' % (
        x, y, anchor, size, weight, color, escape(words))


def line(x1, y1, x2, y2, color, width=1.0):
    return '<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-width="%.1f"/>' % (
        x1, y1, x2, y2, color, width)


class Bar:
    """label; seconds of front end and back end; sum: the Spread of their sum; ours: drawn in colour."""

    def __init__(self, label, front, back, total, ours):
        self.label, self.front, self.back, self.total, self.ours = label, front, back, total, ours


def step_of(most):
    """A round number of seconds that needs at most TICKS_MAX ticks up to `most`."""
    size = 1e-6
    while True:
        for factor in (1, 2, 5):
            if size * factor * TICKS_MAX >= most:
                return size * factor
        size *= 10


def rectangle(x, y, width, color):
    return '<rect x="%.1f" y="%.1f" width="%.1f" height="%d" fill="%s"/>' % (x, y, width, BAR, color)


def legend():
    parts = []
    for x, words, shade in ((LEFT, "front", 0), (LEFT + 150, "back, behind a proxy", 1)):
        parts += [rectangle(x, TOP - 36, BAR, COLORS[True][shade]), text(x + BAR + 6, TOP - 23, words, size=11)]
    return parts + [line(LEFT + 310, TOP - 27, LEFT + 340, TOP - 27, "#222222", 1.5),
                    text(LEFT + 346, TOP - 23, "their sum in the rounds", size=11)]


def draw_bar(bar, y, scale):
    front, back = (color for color in COLORS[bar.ours])
    middle = y + BAR / 2
    end = LEFT + scale * max(bar.front + bar.back, bar.total.high)
    return [text(LEFT - 10, middle + 4, bar.label, "end", 12),
            rectangle(LEFT, y, scale * bar.front, front),
            rectangle(LEFT + scale * bar.front, y, scale * bar.back, back),
            line(LEFT + scale * bar.total.low, middle, LEFT + scale * bar.total.high, middle, "#222222", 1.5),
            text(end + 8, middle + 4, "%.2f" % bar.total.median, size=12, weight="bold")]


def write(path, title, below, bars):
    most = max(max(bar.front + bar.back, bar.total.high) for bar in bars)
    step = step_of(most)
    scale = (WIDTH - LEFT - RIGHT) / (most or 1)
    height = TOP + ROW * len(bars) + BOTTOM
    parts = head(WIDTH, height) + [
             text(16, 24, title, size=15, weight="bold"), text(16, 42, below, size=10, color="#555555")] + legend()
    tick = 0.0
    while tick <= most * (1 + 1e-9):
        x = LEFT + scale * tick
        parts += [line(x, TOP - 6, x, height - BOTTOM + 4, "#dddddd"),
                  text(x, height - BOTTOM + 18, "%.3g" % tick, "middle", 10)]
        tick += step
    for number, bar in enumerate(bars):
        parts += draw_bar(bar, TOP + ROW * number, scale)
    parts.append(text(LEFT, height - 6, "CPU seconds per million keys, user and system", size=10, color="#555555"))
    with open(path, "w") as file:
        file.write("\n".join(parts + ["</svg>", ""]))
