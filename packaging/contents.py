"""What a package holds, and archives whose bytes depend on nothing else."""

import gzip
import hashlib
import io
import os
import pathlib
import subprocess
import tarfile

HERE = pathlib.Path(__file__).resolve().parent
# Where each shell looks for completions.
COMPLETIONS = {
    "bash": "usr/share/bash-completion/completions/kvorum",
    "zsh": "usr/share/zsh/vendor-completions/_kvorum",
    "fish": "usr/share/fish/vendor_completions.d/kvorum.fish",
}
CONFIGURATION = "etc/kvorum/kvorum.toml"
UNIT = "usr/lib/systemd/system/kvorum.service"
BACKUP_UNIT = "usr/lib/systemd/system/kvorum-backup.service"


def epoch():
    """The time of all files: that of the release, in seconds since 1970."""
    return int(os.environ.get("SOURCE_DATE_EPOCH", 0))


def digest(content):
    return hashlib.sha256(content).hexdigest()


def compressed(content):
    return gzip.compress(content, compresslevel=6, mtime=0)


def installed(program, licences, work):
    """The files of an installation by their paths, with their modes. `work` is an empty folder."""
    pages = work / "man"
    subprocess.run([program, "man", pages], check=True)
    files = {
        "usr/bin/kvorum": (program.read_bytes(), 0o755),
        UNIT: ((HERE / "kvorum.service").read_bytes(), 0o644),
        BACKUP_UNIT: ((HERE / "kvorum-backup.service").read_bytes(), 0o644),
        CONFIGURATION: ((HERE / "kvorum.toml").read_bytes(), 0o644),
        "usr/share/doc/kvorum/alerts.yml": ((HERE / "alerts.yml").read_bytes(), 0o644),
        "usr/share/doc/kvorum/grafana.json": ((HERE / "grafana.json").read_bytes(), 0o644),
        "usr/share/doc/kvorum/copyright": (licences.read_bytes(), 0o644),
        "usr/share/doc/kvorum/CHANGELOG.md.gz": (compressed((HERE.parent / "CHANGELOG.md").read_bytes()), 0o644),
    }
    for shell, path in COMPLETIONS.items():
        script = subprocess.run([program, "completions", shell], capture_output=True, check=True).stdout
        files[path] = (script, 0o644)
    for page in pages.iterdir():
        files[f"usr/share/man/man1/{page.name}.gz"] = (compressed(page.read_bytes()), 0o644)
    return files


def tar(entries):
    """An archive of (path, content or None for a folder, mode, user)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path, content, mode, user in entries:
            entry = tarfile.TarInfo(path)
            entry.mode, entry.mtime, entry.uid, entry.gid = mode, epoch(), user, user
            if content is None:
                entry.type = tarfile.DIRTYPE
            else:
                entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content or b""))
    return out.getvalue()


def with_folders(files):
    """The entries of files, which root owns, each behind its folders."""
    seen = set()
    for path, (content, mode) in sorted(files.items()):
        for folder in reversed(pathlib.PurePosixPath(path).parents[:-1]):
            if folder not in seen:
                seen.add(folder)
                yield str(folder), None, 0o755, 0
        yield path, content, mode, 0
