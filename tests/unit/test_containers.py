"""Containers and pods of a host, found in made trees of control groups and in what the runtimes keep in files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tailrace import containers
from tailrace.containers import PODS_MAX, Pod, groups

A, B, C, P = ("a" * 64, "b" * 64, "c" * 64, "f" * 64)
UID = "5d2a90f1-1c7e-4b58-9e5c-6f0e7a1b2c3d"
SLICE = f"kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice"
V2 = "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup rw"
V1 = "\n".join(
    f"{n} 31 0:{n} / /sys/fs/cgroup/{name} rw - cgroup cgroup rw,{name}" for n, name in ((32, "cpu"), (33, "memory"))
)


class Host:
    """A host whose files are made."""

    def __init__(self, root: Path, mounts: str = V2) -> None:
        self.root = root
        self.hierarchies = [line.split()[4] for line in mounts.splitlines()]
        self.file("proc/self/mountinfo", f"22 1 0:1 / /proc rw - proc proc rw\n{mounts}\n")
        self.file("proc/self/ns/net", "of the host")

    def file(self, path: str, text: str) -> Path:
        at = self.root / path
        at.parent.mkdir(parents=True, exist_ok=True)
        at.write_text(text)
        return at

    def group(self, path: str, *pids: int, netns: str | None = None) -> None:
        """A control group with processes in a network namespace: that of the host, or one with a name."""
        for mount in self.hierarchies:
            self.file(f"{mount.lstrip('/')}/{path}/cgroup.procs", "".join(f"{pid}\n" for pid in pids))
        space = self.root / "proc/self/ns/net" if netns is None else self.file(f"netns/{netns}", netns)
        for pid in pids:
            own = self.root / f"proc/{pid}/ns/net"
            own.parent.mkdir(parents=True)
            own.hardlink_to(space)

    def find(self) -> containers.Found:
        return containers.find(self.root)


@pytest.mark.parametrize("mounts", [V1, V2], ids=["v1", "v2"])
@pytest.mark.parametrize(
    ("path", "inside"),
    [
        (f"docker/{A}", ""),
        (f"system.slice/docker-{A}.scope", ""),
        (f"machine.slice/libpod-{A}.scope", "/container"),
        (f"libpod_parent/libpod-{A}", ""),
        (f"default/{A}", ""),
        (f"docker/{A}", "/system.slice/nginx.service"),
    ],
)
def test_a_container_is_found_by_its_group(tmp_path: Path, mounts: str, path: str, inside: str) -> None:
    host = Host(tmp_path, mounts)
    host.group(path + inside, 7, netns="web")
    found = host.find()
    assert found.pods == (Pod("a" * 12, "/proc/7/ns/net", path),)
    assert found.names == {A: "a" * 12}


@pytest.mark.parametrize("mounts", [V1, V2], ids=["v1", "v2"])
@pytest.mark.parametrize(
    ("pod", "name"),
    [
        (f"kubepods/burstable/pod{UID}", "{}"),
        (SLICE, "cri-containerd-{}.scope"),
        (SLICE, "crio-{}.scope"),
        (SLICE, "docker-{}.scope"),
        ("kubepods/pod" + "0123456789abcdef" * 2, "{}"),
    ],
)
def test_containers_of_a_pod_are_one_node_with_its_own_names(tmp_path: Path, mounts: str, pod: str, name: str) -> None:
    host = Host(tmp_path, mounts)
    for pid, one in enumerate((P, A, B), 7):
        host.group(f"{pod}/{name.format(one)}", pid, netns="web-0")
    for container, one in (("nginx", A), ("logs", B)):
        (host.file("var/log/containers/.keep", "").parent / f"web-0_shop_{container}-{one}.log").symlink_to("/nowhere")
    found = host.find()
    assert [(pod.name, pod.cgroup) for pod in found.pods] == [("shop/web-0", pod)]
    assert found.pods[0].netns in {f"/proc/{pid}/ns/net" for pid in (7, 8, 9)}
    assert found.names == {A: "shop/web-0/nginx", B: "shop/web-0/logs", P: "f" * 12}


def test_services_monitors_and_empty_groups_are_no_containers(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.group("system.slice/nginx.service", 3)
    host.group(f"machine.slice/libpod-conmon-{A}.scope", 4)
    host.group(f"docker/{B}")
    found = host.find()
    assert (found.pods, set(found.names)) == ((), {B})


def test_a_pod_in_the_network_of_its_host_has_no_namespace_of_its_own(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.group(f"docker/{A}", 7)
    assert [pod.netns for pod in host.find().pods] == [None]


def test_a_container_within_a_container_is_the_inner_one(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.group(f"docker/{A}", 7, netns="outer")
    host.group(f"docker/{A}/docker/{B}", 8, netns="inner")
    assert {pod.cgroup: pod.netns for pod in host.find().pods} == {
        f"docker/{A}": "/proc/7/ns/net",
        f"docker/{A}/docker/{B}": "/proc/8/ns/net",
    }


def test_each_runtime_names_its_containers(tmp_path: Path) -> None:
    host = Host(tmp_path)
    for pid, one in enumerate((A, B, C, P), 7):
        host.group(f"x/{one}", pid, netns=one[0])
    host.file(f"var/lib/docker/containers/{A}/config.v2.json", json.dumps({"Name": "/shop-web-1", "Config": {}}))
    listed = [
        {"id": B, "names": ["cache"]},
        {"id": C, "names": [f"k8s_app_app-0_shop_{UID}_2"]},
        {"id": P, "names": []},
    ]
    host.file("var/lib/containers/storage/overlay-containers/containers.json", json.dumps(listed))
    keys = ("namespace", "sandbox-namespace"), ("name", "sandbox-name"), ("container", "container-name")
    annotations = {f"io.kubernetes.cri.{key}": value for value, key in keys}
    bundle = f"run/containerd/io.containerd.runtime.v2.task/k8s.io/{P}/config.json"
    host.file(bundle, json.dumps({"annotations": annotations}))
    assert host.find().names == {
        A: "shop-web-1",
        B: "cache",
        C: "shop/app-0/app",
        P: "namespace/name/container",
    }


def test_the_sandbox_of_a_pod_has_the_name_of_the_pod(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.group(f"kubepods/pod{UID}/{A}", 7, netns="a")
    labels = {"io.kubernetes.pod.namespace": "shop", "io.kubernetes.pod.name": "web-0"}
    labels["io.kubernetes.container.name"] = "POD"
    kept = {"Name": "/k8s_POD_web-0_shop_x_0", "Config": {"Labels": labels}}
    host.file(f"var/lib/docker/containers/{A}/config.v2.json", json.dumps(kept))
    assert [pod.name for pod in host.find().pods] == ["shop/web-0"]
    assert host.find().names == {A: "shop/web-0"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"Name": 3}',
        '{"Name": "/a\\u001b[2J"}',
        '{"Name": "/../etc"}',
        '{"Name": "/' + "a" * 300 + '"}',
    ],
)
def test_a_damaged_or_hostile_state_gives_no_name(tmp_path: Path, text: str) -> None:
    host = Host(tmp_path)
    host.group(f"docker/{A}", 7, netns="a")
    host.file(f"var/lib/docker/containers/{A}/config.v2.json", text)
    host.file("var/lib/containers/storage/overlay-containers/containers.json", text)
    assert host.find().names == {A: "a" * 12}


def test_more_pods_than_can_be_sampled_are_counted_and_still_named(tmp_path: Path) -> None:
    host = Host(tmp_path)
    for number in range(PODS_MAX + 2):
        host.group(f"docker/{number:064x}", 1000 + number, netns=str(number))
    found = host.find()
    assert (len(found.pods), found.left_out, len(found.names)) == (PODS_MAX, 2, PODS_MAX + 2)


def test_a_deep_tree_and_a_host_without_groups_end(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.group("/".join(["x"] * (groups.DEPTH_MAX + 5)) + f"/{A}", 7)
    assert host.find().names == {}
    assert containers.find(tmp_path / "nowhere").pods == ()
