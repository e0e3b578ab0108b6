"""The Grafana dashboard and the alerts use what rota gives, and promtool takes them.

promtool is in Debian's package `prometheus`; without it on PATH its tests are skipped. Grafana's
own linter comes in no package.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from rota.metrics import CATALOGUE

ROOT = Path(__file__).resolve().parents[2]
DASHBOARD = json.loads((ROOT / "contrib/grafana/rota.json").read_text(encoding="utf-8"))
RULES_FILE = ROOT / "contrib/prometheus/rota.rules.yml"
RULES = [
    rule
    for group in yaml.safe_load(RULES_FILE.read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
]
PANELS: list[dict[str, Any]] = [one for one in DASHBOARD["panels"] if one["type"] != "row"]
QUERIES = [target["expr"] for panel in PANELS for target in panel["targets"]]
EXPRESSIONS = QUERIES + [rule["expr"] for rule in RULES]
PARTS = {"histogram": ("_bucket", "_count", "_sum")}
SERIES = {f"{one.name}{part}": one for one in CATALOGUE for part in PARTS.get(one.kind, ("",))}
"""The names a query may use."""
GIVEN_BY_PROMETHEUS = {"instance", "job", "le"}


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_metric_and_label_is_one_that_rota_gives(expression: str) -> None:
    names = re.findall(r"\brota_\w+", expression)
    assert names
    unknown = set(names) - SERIES.keys()
    assert not unknown
    labels = {label for name in names for label in SERIES[name].labels} | GIVEN_BY_PROMETHEUS
    selectors = re.findall(r"[{,](\w+)=", expression)
    grouped = [
        label.strip()
        for group in re.findall(r"\b(?:by|without|on) \(([^)]*)\)", expression)
        for label in group.split(",")
    ]
    assert set(selectors) | set(grouped) <= labels


def test_every_metric_is_shown_or_watched() -> None:
    used = {SERIES[name].name for e in EXPRESSIONS for name in re.findall(r"\brota_\w+", e)}
    assert {metric.name for metric in CATALOGUE} == used


def test_every_metric_is_on_its_page() -> None:
    page = (ROOT / "docs/monitoring.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(rota_\w+)`", page))
    assert named == {metric.name for metric in CATALOGUE}
    for metric in CATALOGUE:
        row = next(line for line in page.splitlines() if f"`{metric.name}`" in line)
        for label in set(metric.labels) - {"queue"}:
            assert label in row.split("|")[2], metric.name


def test_the_dashboard_is_one() -> None:
    assert DASHBOARD["uid"] == "rota"
    assert DASHBOARD["schemaVersion"] >= 39
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    assert "id" not in DASHBOARD  # an imported dashboard gets its own
    variables = {one["name"] for one in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(DASHBOARD))) - {"__rate_interval"}
    assert used == variables
    for panel in PANELS:
        assert panel["title"]
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        letters = [target["refId"] for target in panel["targets"]]
        assert len(set(letters)) == len(letters) > 0


def test_no_two_panels_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        assert 0 <= place["x"] < place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells


def test_every_alert_says_how_bad_it_is_and_what_it_means() -> None:
    names = [rule["alert"] for rule in RULES]
    assert len(set(names)) == len(names)
    for rule in RULES:
        assert rule["alert"].startswith("Rota")
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert rule["annotations"]["summary"]


def promtool(*words: str) -> str:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("no promtool here: apt-get install prometheus")
    done = subprocess.run([program, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_promtool_takes_the_alerts() -> None:
    assert f"{len(RULES)} rules found" in promtool("check", "rules", str(RULES_FILE))


def test_promtool_takes_the_queries_of_the_dashboard(tmp_path: Path) -> None:
    rules = [
        {"record": f"query:{n}", "expr": query.replace("$__rate_interval", "5m")}
        for n, query in enumerate(QUERIES)
    ]
    file = tmp_path / "queries.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    assert f"{len(QUERIES)} rules found" in promtool("check", "rules", str(file))


ALERTS = """
rule_files: [{rules}]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {{series: 'rota_queue_unattended{{queue="orders"}}', values: '0 1x5'}}
      - {{series: 'rota_fairness_index{{queue="orders"}}', values: '1 0.5x15'}}
      - {{series: 'rota_worker_ready{{instance="w1"}}', values: '1x5 0x5'}}
      - {{series: 'rota_queue_events_total{{queue="orders",event="buried"}}', values: '0+5x12'}}
    alert_rule_test:
      - {{eval_time: 1m, alertname: RotaQueueUnattended, exp_alerts: []}}
      - eval_time: 4m
        alertname: RotaQueueUnattended
        exp_alerts:
          - exp_labels: {{severity: critical, queue: orders}}
            exp_annotations:
              summary: Work waits in queue orders, and no worker is there
              description: No consumer has a lease. Are the workers running, and on this server?
      - {{eval_time: 4m, alertname: RotaWorkerNotReady, exp_alerts: []}}
      - eval_time: 12m
        alertname: RotaUnfair
        exp_alerts:
          - exp_labels: {{severity: warning, queue: orders}}
            exp_annotations:
              summary: Lanes of queue orders are served unevenly (index 0.50)
              description: "See who is behind: `rota lane ls orders --by behind`."
"""


def test_alerts_fire_when_they_should(tmp_path: Path) -> None:
    file = tmp_path / "alerts.yml"
    file.write_text(ALERTS.format(rules=RULES_FILE))
    assert "SUCCESS" in promtool("test", "rules", str(file))
