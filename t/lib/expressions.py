# SPDX-License-Identifier: BSD-3-Clause
"""The expressions of contrib's dashboard and alert rules, and the metrics in them."""
import json
import os
import re

OURS = re.compile(r"\b(?:farcached|farnode|process)_\w+")
OTHERS = {"up"}


def dashboard_expressions(path):
    """[(where, expression)], including those of variables."""
    with open(path, encoding="utf-8") as f:
        board = json.load(f)
    found = [(panel["title"], target["expr"]) for panel in board["panels"] for target in panel.get("targets", ())]
    found += [("variable " + one["name"], one["definition"]) for one in board["templating"]["list"] if "definition" in one]
    return found


def rule_expressions(path):
    """The same of a rules file in our own format: `expr: ...`, or folded below `expr: >-`."""
    with open(path, encoding="utf-8") as f:
        lines = f.read().split("\n")
    found, name = [], ""
    for i, line in enumerate(lines):
        name = line.split("alert:")[1].strip() if "alert:" in line else name
        m = re.match(r"^( *)expr: *(.*)$", line)
        if not m:
            continue
        words = [m.group(2)] if m.group(2) != ">-" else []
        for more in lines[i + 1:]:
            if m.group(2) != ">-" or not more.startswith(m.group(1) + "  "):
                break
            words.append(more.strip())
        found.append((name, " ".join(words)))
    return found


def contrib_expressions(top):
    board = os.path.join(top, "contrib", "grafana", "farcached.json")
    rules = os.path.join(top, "contrib", "prometheus", "farcached.rules.yml")
    return dashboard_expressions(board), rule_expressions(rules)


def names_in(expression):
    """Names of metrics, without the texts of selectors."""
    without_texts = re.sub(r'"[^"]*"', '""', expression)
    return set(OURS.findall(without_texts))


def labels_in(expression):
    """{metric: labels that its selector compares}."""
    return {name: set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", inner or ""))
            for name, inner in re.findall(r"\b((?:farcached|farnode|process)_\w+)(?:\{([^}]*)\})?", expression)}
