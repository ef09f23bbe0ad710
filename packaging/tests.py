#!/usr/bin/env python3
"""Tests of what packaging makes of a program.

    packaging/tests.py [PROGRAM]    # without it target/debug/kvorum

The node is run from the package that is unpacked, and in an empty root if the program is static
and the tests run as root. What needs a program that is missing says so in a line, and passes.
"""

import contextlib
import gzip
import hashlib
import io
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE))
import contents

GUIDE = HERE.parent / "docs/how-to/install.md"
PROGRAM = HERE.parent / "target/debug/kvorum"
VERSION = "1.2.3"
TIMEOUT_S = 60
EXPOSURE_MAX = 2.5


def not_tested(what):
    print(f"not tested: {what}", file=sys.stderr)


def is_static(program):
    """Whether a program names no interpreter, which would load libraries."""
    return b"/ld-linux" not in program.read_bytes()[:4096]


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@contextlib.contextmanager
def node(port, command, **options):
    """A node that has become ready on a port of 127.0.0.1."""
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **options)
    try:
        url = f"http://127.0.0.1:{port}/health/ready"
        until = time.monotonic() + TIMEOUT_S
        while True:
            with contextlib.suppress(OSError):
                if urllib.request.urlopen(url, timeout=TIMEOUT_S).status == 200:
                    break
            if process.poll() is not None or time.monotonic() > until:
                process.kill()
                raise AssertionError(process.communicate()[1])
            time.sleep(0.01)
        yield process
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=TIMEOUT_S)[1]
        if process.returncode != 0:
            raise AssertionError(said)
    finally:
        process.kill()
        process.wait()


class Packaging(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        work = tempfile.TemporaryDirectory()
        cls.addClassCleanup(work.cleanup)
        cls.work = pathlib.Path(work.name)
        cls.licences = cls.work / "LICENCES"
        cls.licences.write_text("licences")
        # A program for developers is mostly names.
        cls.program = cls.work / "kvorum"
        shutil.copy(PROGRAM, cls.program)
        if strip := shutil.which("strip"):
            subprocess.run([strip, cls.program], check=True)
        os.environ["SOURCE_DATE_EPOCH"] = "1700000000"

    def made(self, script, name):
        """What a script makes of the program, which is the same twice."""
        files = [self.work / f"{name}{number}" for number in (1, 2)]
        for file in files:
            command = [HERE / script, self.program, self.licences, VERSION, file]
            subprocess.run(command, check=True, umask=0o077 if file == files[1] else 0o022)
        first, second = map(pathlib.Path.read_bytes, files)
        self.assertTrue(first == second, f"{script} makes other bytes of the same program")
        return files[0]

    def test_a_node_runs_from_the_unpacked_package(self):
        if not shutil.which("dpkg-deb"):
            return not_tested("the package: dpkg-deb is missing")
        file, root = self.made("deb", "kvorum.deb"), self.work / "root"
        subprocess.run(["dpkg-deb", "--extract", file, root], check=True)
        subprocess.run(["dpkg-deb", "--control", file, self.work / "control"], check=True)
        control = self.work / "control"
        self.assertIn(f"Version: {VERSION}\n", (control / "control").read_text())
        for path in (control / "conffiles").read_text().split():
            self.assertTrue((root / path[1:]).is_file(), path)
        for script in ("postinst", "prerm", "postrm"):
            subprocess.run(["sh", "-n", control / script], check=True)
        owners = subprocess.run(["dpkg-deb", "--contents", file], capture_output=True, text=True, check=True).stdout
        for line in owners.splitlines():
            self.assertRegex(line, r"^(drwxr-xr-x|-rw-r--r--|-rwxr-xr-x) root/root ")
        pages = [page.name for page in (root / "usr/share/man/man1").iterdir()]
        self.assertIn("kvorum-serve.1.gz", pages)
        for path in contents.COMPLETIONS.values():
            self.assertIn("kvorum", (root / path).read_text(), path)
        self.check_unit(root)

        port = free_port()
        command = [root / "usr/bin/kvorum", "serve", "--config", root / contents.CONFIGURATION]
        command += ["--url", f"http://127.0.0.1:{port}", "--data", self.work / "data", "--memory", "128MiB"]
        with node(port, command):
            pass

    def test_three_nodes_run_by_the_guide(self):
        port = free_port()
        guide = GUIDE.read_text().replace("10.0.0.", "127.0.0.").replace(":8080", f":{port}")
        home = self.work / "home"
        home.mkdir()
        environment = os.environ | {"PATH": f"{self.work}:{os.environ['PATH']}", "XDG_CONFIG_HOME": str(home)}
        for commands in re.findall(r"^```sh\n(.*?)^```", guide, re.MULTILINE | re.DOTALL):
            done = subprocess.run(["sh", "-e"], input=commands, cwd=home, env=environment, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done)

        shipped = (HERE / "kvorum.toml").read_text()
        for line in re.search(r"^```toml\n(.*?)^```", guide, re.MULTILINE | re.DOTALL)[1].splitlines():
            pattern = rf"^# {line.split()[0]} = .*$"
            self.assertRegex(shipped, re.compile(pattern, re.MULTILINE), "a line that is not there to be uncommented")
            shipped = re.sub(pattern, lambda _: line, shipped, flags=re.MULTILINE)
        with contextlib.ExitStack() as nodes:
            for address in ("127.0.0.5", "127.0.0.6", "127.0.0.7"):
                folder = self.work / address
                shutil.copytree(home, folder)
                for suffix in ("pem", "key"):
                    (folder / f"{address}.{suffix}").rename(folder / f"node.{suffix}")
                config = folder / "kvorum.toml"
                config.write_text(shipped.replace("https://127.0.0.5", f"https://{address}", 1).replace("/etc/kvorum", str(folder)))
                options = ["--config", config, "--data", folder / "data", "--memory", "128MiB"]
                checked = subprocess.run([self.program, "admin", "check", *options], capture_output=True, text=True)
                self.assertEqual(checked.returncode, 0, checked)
                command = [self.program, "serve", *options]
                process = nodes.enter_context(subprocess.Popen(command, stderr=subprocess.DEVNULL))
                nodes.callback(process.kill)
            url = f"https://127.0.0.5:{port}"
            trust = ["--ca", home / "ca.pem", "--token-file", home / "ops-token"]
            command = [self.program, "admin", "status", "--json", "--url", url, *trust]
            until = time.monotonic() + TIMEOUT_S
            while True:
                said = subprocess.run(command, capture_output=True, text=True)
                states = [one.get("replica_state") for one in json.loads(said.stdout or "{}").get("nodes", [])]
                if states == ["voter"] * 3:
                    break
                self.assertLess(time.monotonic(), until, said)
            trust[-1] = home / "shop-token"
            for key, code in (("cart/1", 0), ("other", 5)):
                done = subprocess.run([self.program, "put", key, "v", "--url", url, *trust], capture_output=True, text=True)
                self.assertEqual(done.returncode, code, done)

    def check_unit(self, root):
        unit = (root / contents.UNIT).read_text()
        program, config = re.search(r"^ExecStart=(\S+) serve --config (\S+)$", unit, re.MULTILINE).groups()
        self.assertTrue(os.access(root / program[1:], os.X_OK), program)
        self.assertTrue((root / config[1:]).is_file(), config)
        if not shutil.which("systemd-analyze"):
            return not_tested("the unit: systemd-analyze is missing")
        for unit in ("kvorum.service", "kvorum-backup.service"):
            command = ["systemd-analyze", "security", "--offline=true", "--no-pager", f"--root={root}", unit]
            said = subprocess.run(command, capture_output=True, text=True).stdout
            exposure = re.search(rf"Overall exposure level for {unit}: ([\d.]+)", said)
            self.assertLess(float(exposure[1]), EXPOSURE_MAX, said)

    def test_the_unit_restarts_a_node_that_failed_and_none_that_refuses(self):
        unit = (HERE / "kvorum.service").read_text()
        self.assertIn("\nRestart=on-failure\n", unit)
        refusals = re.search(r"^RestartPreventExitStatus=(.*)$", unit, re.MULTILINE)[1].split()
        for options, is_refusal in [(["--memory", "lots"], True), (["--data", "/dev/null"], True), ([], False)]:
            with socket.socket() as taken:
                taken.bind(("127.0.0.1", 0))
                taken.listen()
                url = f"http://127.0.0.1:{taken.getsockname()[1]}"
                folder = self.work / "refused"
                command = [self.program, "serve", "--url", url, "--data", folder, *options]
                ended = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
            self.assertNotEqual(ended.returncode, 0)
            self.assertEqual(str(ended.returncode) in refusals, is_refusal, ended)

    def test_the_image_holds_what_its_digests_say(self):
        with tarfile.open(self.made("image", "image.tar")) as archive:
            files = {entry.name: archive.extractfile(entry).read() for entry in archive if entry.isfile()}

        def blob(entry):
            content = files["blobs/sha256/" + entry["digest"].removeprefix("sha256:")]
            self.assertEqual(entry["digest"], f"sha256:{hashlib.sha256(content).hexdigest()}")
            self.assertEqual(entry["size"], len(content))
            return content

        manifest = json.loads(blob(json.loads(files["index.json"])["manifests"][0]))
        config = json.loads(blob(manifest["config"]))
        layers = [gzip.decompress(blob(layer)) for layer in manifest["layers"]]
        digests = [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in layers]
        self.assertEqual(config["rootfs"]["diff_ids"], digests)
        for path in (docker := json.loads(files["manifest.json"])[0])["Layers"] + [docker["Config"]]:
            self.assertIn(path, files)
        self.run_image(config["config"], layers)

    def run_image(self, config, layers):
        """Runs the image as a runtime of containers would: in a root with nothing else."""
        if not is_static(self.program):
            return not_tested("the image in an empty root: the program is not static")
        if os.geteuid() != 0:
            return not_tested("the image in an empty root: it needs root")
        root = self.work / "empty"
        for layer in layers:
            with tarfile.open(fileobj=io.BytesIO(layer)) as archive:
                archive.extractall(root)
        user, group = map(int, config["User"].split(":"))
        os.chown(root / "data", user, group)
        # What a runtime adds: the names of other hosts, and a name server.
        (root / "etc").mkdir()
        (root / "etc/hosts").write_text("127.0.0.1 localhost node.test\n")
        (root / "etc/resolv.conf").write_text("nameserver 127.0.0.1\n")
        self.plant_module(root)
        os.chmod(self.work, 0o755)
        port = free_port()
        environment = dict(variable.split("=", 1) for variable in config["Env"])
        environment["KVORUM_URL"] = f"http://node.test:{port}"
        environment["KVORUM_MEMORY"] = "128MiB"

        def enter():
            os.chroot(root)
            os.chdir("/")
            os.setgroups([])
            os.setgid(group)
            os.setuid(user)

        command = [*config["Entrypoint"], *config["Cmd"]]
        with node(port, command, env=environment, preexec_fn=enter):
            url = f"http://node.test:{port}"
            for words in (["put", "k", "v"], ["get", "k"]):
                done = subprocess.run(
                    [*config["Entrypoint"], *words, "--url", url], env={}, preexec_fn=enter, capture_output=True
                )
                self.assertEqual(done.returncode, 0, done)
            self.assertEqual(done.stdout, b"v")
        self.assertTrue((root / "data/store/MANIFEST").is_file())

    def plant_module(self, root):
        """Has the system look up hosts with a module that crashes whatever loads it."""
        (root / "etc/nsswitch.conf").write_text("hosts: planted files dns\n")
        (root / "lib").mkdir()
        crash = "__attribute__((constructor)) static void crash(void) { *(volatile int *)0 = 0; }"
        command = ["cc", "-shared", "-nostdlib", "-x", "c", "-", "-o", root / "lib/libnss_planted.so.2"]
        subprocess.run(command, input=crash, text=True, check=True)

    def test_manifests_fit_their_schemas(self):
        try:
            import kubernetes_validate
            import yaml
        except ImportError:
            return not_tested("kubernetes.yml: pip install kubernetes-validate")
        for document in yaml.safe_load_all((HERE / "kubernetes.yml").read_text()):
            kubernetes_validate.validate(document, "1.30", strict=True)


if __name__ == "__main__":
    if len(sys.argv) > 1 and os.path.isfile(sys.argv[1]):
        PROGRAM = pathlib.Path(sys.argv.pop(1)).absolute()
    unittest.main()
