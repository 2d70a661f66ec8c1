# SPDX-License-Identifier: BSD-3-Clause
"""The container image of contrib/image, an OCI layout given as an argument, and the manifests of contrib/kubernetes. The image is
small, runs in a chroot and, where crun may make containers, in one; the manifests fit Kubernetes's schema and the programs. Needs
root."""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import yaml

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from farcached import Client, deadline, tap, until  # noqa: E402

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MANIFESTS = os.path.join(TOP, "contrib", "kubernetes", "farcached.yaml")
PATHS = {"PATH": "/usr/sbin:/usr/bin"}
LAYERS_MAX = 60 * 1000 * 1000  # bytes, compressed


def blob(layout, digest):
    return os.path.join(layout, "blobs", *digest.split(":"))


def read_blob(layout, digest):
    with open(blob(layout, digest), encoding="utf-8") as file:
        return json.load(file)


def run(*words, **more):
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=deadline() * 6, **more)
    return done.returncode, done.stdout.decode("utf-8", "replace")


def looks(layout):
    """Checks sizes and settings; returns the tag."""
    with open(os.path.join(layout, "index.json"), encoding="utf-8") as file:
        manifests = json.load(file)["manifests"]
    tap.is_(len(manifests), 1, "the layout has one image")
    manifest = read_blob(layout, manifests[0]["digest"])
    size = sum(os.path.getsize(blob(layout, layer["digest"])) for layer in manifest["layers"])
    tap.ok(size <= LAYERS_MAX, "its compressed layers are small", size)
    tap.diag("%.1f MB of layers" % (size / 1e6))
    config = read_blob(layout, manifest["config"]["digest"])["config"]
    tap.is_((config["User"], config["Cmd"], list(config["ExposedPorts"])), ("11211:11211", ["farcached"], ["11211/tcp"]),
            "it runs farcached on memcached's port, and not as root")
    return manifests[0]["annotations"]["org.opencontainers.image.ref.name"]


def serves(title, command, root):
    """Runs farcached by the command in the root, whose folder /tmp gets the port."""
    ports = os.path.join(root, "tmp", "ports-" + re.sub(r"\W", "", title))
    environment = {**os.environ, "MEMCACHED_PORT_FILENAME": "/tmp/" + os.path.basename(ports)}
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, env=environment) as daemon:
        try:
            until(lambda: os.path.exists(ports) or daemon.poll() is not None, bool)
            with open(ports, encoding="ascii") as file:
                port = int(file.read().rsplit(": ", 1)[1])
            with Client(port) as c:
                tap.is_((c.set("k", "v"), c.get("k")), ("STORED", b"v"), title + ": it serves")
        finally:
            daemon.terminate()
    tap.is_(daemon.returncode, 0, title + ": it ends")


def in_chroot(root):
    for program in ("farcached", "farnode", "farctl", "farbench"):
        status, said = run("chroot", root, program, "--help", env=PATHS)
        tap.ok(status == 0, program + " has all of its libraries", said)
    serves("chroot", ["chroot", "--userspec=11211:11211", root, "/usr/bin/farcached", "-l", "127.0.0.1", "-p", "-1"], root)


def in_container(bundle):
    """The bundle's process in a container of crun, with the host's network."""
    with open(os.path.join(bundle, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    config["process"].update(terminal=False, args=["farcached", "-l", "127.0.0.1", "-p", "-1"],
                             env=["PATH=/usr/bin", "MEMCACHED_PORT_FILENAME=/tmp/ports-container"])
    config["linux"]["namespaces"] = [n for n in config["linux"]["namespaces"] if n["type"] != "network"]
    config["mounts"] = [m for m in config["mounts"] if m["destination"] != "/tmp"]
    with open(os.path.join(bundle, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)
    name = "farcached-test-%d" % os.getpid()
    status, said = run("crun", "--cgroup-manager=disabled", "create", "--bundle", bundle, name)
    run("crun", "--cgroup-manager=disabled", "delete", "--force", name)
    if status != 0:
        return tap.skip("container: it serves", "crun makes no container here: " + said.strip().replace("\n", " ")[:200])
    return serves("container", ["crun", "--cgroup-manager=disabled", "run", "--bundle", bundle, name],
                  os.path.join(bundle, "rootfs"))


def manifests_fit(root):
    validator = os.path.join(os.environ["VALIDATOR"], "bin", "kubernetes-validate")
    for path in (MANIFESTS, os.path.join(os.path.dirname(MANIFESTS), "fleet.yaml")):
        status, said = run(validator, "--strict", path)
        tap.ok(status == 0, os.path.basename(path) + " fits Kubernetes's schema", said)
    with open(MANIFESTS, encoding="utf-8") as file:
        kinds = {(document["kind"], document["metadata"]["name"]): document for document in yaml.safe_load_all(file)}
    configuration = kinds["ConfigMap", "farcached"]["data"]["far.toml"]
    with open(os.path.join(root, "tmp", "far.toml"), "w", encoding="utf-8") as file:
        file.write(configuration)
    status, said = run("chroot", root, "farcached", "--check-config", "/tmp/far.toml", env=PATHS)
    tap.ok(status == 0, "farcached accepts its file", said)
    nodes = kinds["StatefulSet", "farnode"]
    tap.is_(re.findall(r'address = "tcp:([\w-]+)\.farnode:11300"', configuration),
            ["farnode-%d" % i for i in range(nodes["spec"]["replicas"])], "the file names each replica")
    container = nodes["spec"]["template"]["spec"]["containers"][0]
    words = [re.sub(r"\$\(POD_NAME\)", "farnode-0", word) for word in container["command"] + container["args"]]
    status, said = run("chroot", root, *words, "--print-config", env=PATHS)
    tap.ok(status == 0, "farnode accepts its arguments", said)


def main():
    layout = os.path.abspath(sys.argv[1])
    tag = looks(layout)
    folder = tempfile.mkdtemp(prefix="farcached-image-test-")
    try:
        bundle = os.path.join(folder, "bundle")
        status, said = run("umoci", "unpack", "--image", "%s:%s" % (layout, tag), bundle)
        if not tap.ok(status == 0, "umoci unpacks it", said):
            return tap.done()
        root = os.path.join(bundle, "rootfs")
        tap.is_([name for name in glob.glob(os.path.join(root, "*bin", "*")) + glob.glob(os.path.join(root, "usr", "*bin", "*"))
                 if not os.path.basename(name).startswith("far")], [], "it has no other programs")
        in_chroot(root)
        manifests_fit(root)
        in_container(bundle)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return tap.done()


main()
