"""The image, the manifest and the chart: what Kubernetes and Helm accept, and what rights they ask for."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from typer.main import get_command

from tailrace.cli.commands import app

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "chart"
SCHEMAS = json.loads((ROOT / "tests/golden/kubernetes/kinds.json").read_text())
VERSION = "1.34.0"
EVERYTHING = (
    *("metrics.enabled=true", "storage.kind=emptyDir", "watch.ports={80,443}", "watch.options={--once}"),
    *("hub.url=https://hub:9465", "hub.secret=hub", "hub.authority=true", "priorityClassName=high"),
    *("podAnnotations.a=b", "imagePullSecrets[0].name=mine"),
)


def accepted(document: Mapping[str, Any]) -> None:
    """Raises ValidationError if Kubernetes would refuse it (tests/golden/kubernetes/README.md)."""
    schema = {**SCHEMAS, "$ref": f"#/$defs/{SCHEMAS['kinds'][document['kind']]}"}
    jsonschema.Draft202012Validator(schema).validate(document)


def helm(*words: str) -> subprocess.CompletedProcess[str]:
    """Helm of this machine, or as `tools/setup --helm` unpacks it."""
    found = shutil.which("helm") or shutil.which("helm", path=str(ROOT / ".tools" / "bin"))
    if not found:
        pytest.skip("needs helm; `tools/setup --helm` gets it")
    return subprocess.run((found, *words), capture_output=True, text=True, timeout=60)


def rendered(*settings: str) -> list[dict[str, Any]]:
    words = [word for setting in settings for word in ("--set", setting)]
    done = helm("template", "tailrace", str(CHART), "--namespace", "tailrace", "--kube-version", VERSION, *words)
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def manifest() -> dict[str, Any]:
    [document] = yaml.safe_load_all((DEPLOY / "daemonset.yaml").read_text())
    return dict(document)


def test_kubernetes_accepts_the_manifest() -> None:
    accepted(manifest())


@pytest.mark.parametrize(("path", "value"), [("hostNetwrk", True), ("hostPID", "yes"), ("containers", {})])
def test_kubernetes_would_refuse_a_wrong_field(path: str, value: object) -> None:
    document = manifest()
    document["spec"]["template"]["spec"][path] = value
    with pytest.raises(jsonschema.ValidationError):
        accepted(document)


def test_the_pod_asks_for_these_rights_and_no_more() -> None:
    pod = manifest()["spec"]["template"]["spec"]
    [container] = pod["containers"]
    rights = container["securityContext"]
    assert rights["capabilities"] == {
        "drop": ["ALL"],
        "add": ["NET_RAW", "SYS_PTRACE", "DAC_READ_SEARCH", "SYS_NICE", "SYS_ADMIN"],
    }
    assert not rights["privileged"]
    assert not rights["allowPrivilegeEscalation"]
    assert rights["readOnlyRootFilesystem"]
    assert rights["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    written = {mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")}
    assert written == {"/incidents", "/tmp"}
    assert "ports" not in container, "nothing listens unless it is asked for"


def options_of(container: Mapping[str, Any]) -> set[str]:
    assert container["args"][0] == "watch"
    return {word.partition("=")[0] for word in container["args"][1:]}


def known_options() -> set[str]:
    watch = get_command(app).commands["watch"]  # type: ignore[attr-defined]
    return {name for parameter in watch.params for name in parameter.opts}


def test_the_command_of_the_pod_exists() -> None:
    [container] = manifest()["spec"]["template"]["spec"]["containers"]
    assert options_of(container) <= known_options()


def test_the_chart_uses_what_its_values_name() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    text = (CHART / "templates/daemonset.yaml").read_text()
    used = set(re.findall(r"\.Values\.([\w.]+)", text))
    assert used
    for path in used:
        found: Any = values
        for part in path.split("."):
            assert part in found, f"values.yaml lacks {path}"
            found = found[part]


def test_the_manifest_is_what_the_chart_renders() -> None:
    assert [manifest()] == rendered()


def test_kubernetes_accepts_the_chart_with_every_setting() -> None:
    [document] = rendered(*EVERYTHING)
    accepted(document)
    [container] = document["spec"]["template"]["spec"]["containers"]
    optional = {"--metrics", "--report-to", "--token-file", "--hub-ca", "--host", "--port", "--once"}
    assert optional <= options_of(container) <= known_options()
    assert container["ports"] == [{"name": "metrics", "containerPort": 9464, "hostPort": 9464}]


def test_without_the_namespaces_of_pods_the_chart_asks_for_less() -> None:
    [document] = rendered("pods.enabled=false")
    [container] = document["spec"]["template"]["spec"]["containers"]
    assert "SYS_ADMIN" not in container["securityContext"]["capabilities"]["add"]
    assert "--containers" not in options_of(container)


def test_helm_accepts_the_chart() -> None:
    done = helm("lint", "--strict", str(CHART))
    assert done.returncode == 0, done.stdout


def test_the_chart_has_the_version_of_tailrace() -> None:
    version = re.search(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)
    assert version
    assert yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"] == version[1]


def test_the_image_is_built_of_files_that_exist_and_are_sent_to_the_builder() -> None:
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    sent = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    copied = [word for line in lines if line.startswith("COPY ") for word in line.split()[1:-1]]
    assert copied
    for name in copied:
        assert (ROOT / name).exists(), name
        assert f"!{name}" in sent, name


def test_the_builder_gets_every_member_of_the_workspace() -> None:
    """Cargo reads all of their manifests, although it builds only one of them."""
    copied = re.findall(r"^COPY (\S+) \1$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    for member in tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["members"]:
        assert any(member == name or member.startswith(f"{name}/") for name in copied), member
