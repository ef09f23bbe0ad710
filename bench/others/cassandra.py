"""Three nodes of Cassandra on this machine, started from the libraries that Maven fetches."""

import pathlib
import socket
import subprocess

from harness import free_port
from stores import StoreFailed, started

FOLDER = pathlib.Path(__file__).resolve().parent / "ycsb"
SERVER, CLIENTS = FOLDER / "cassandra-server", FOLDER / "clients"
CLASSES = f"{CLIENTS}/target/*:{CLIENTS}/target/dependency/*"
# All nodes use the same ports, so each has an address of its own.
HOSTS = ("127.0.0.1", "127.0.0.2", "127.0.0.3")
START_SECONDS_MAX = 300
HEAP = "1g"

# With `batch` a write is acknowledged once the log is synced.
CONFIGURATION = """
cluster_name: bench
num_tokens: 16
auto_bootstrap: false
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
endpoint_snitch: SimpleSnitch
commitlog_sync: batch
listen_address: {host}
rpc_address: {host}
storage_port: {peers}
native_transport_port: {clients}
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters: [{{seeds: "{seeds}"}}]
data_file_directories: [{data}/data]
commitlog_directory: {data}/commitlog
saved_caches_directory: {data}/saved_caches
hints_directory: {data}/hints
cdc_raw_directory: {data}/cdc
"""

LOGGING = """
<configuration>
  <appender name="STDOUT" class="ch.qos.logback.core.ConsoleAppender"><encoder><pattern>%-5level %msg%n</pattern></encoder></appender>
  <root level="WARN"><appender-ref ref="STDOUT"/></root>
</configuration>
"""

# What Cassandra needs of the inside of a JDK 17.
EXPORTED = (
    "java.base/jdk.internal.misc", "java.base/java.lang.ref", "java.management.rmi/com.sun.jmx.remote.internal.rmi",
    "java.rmi/sun.rmi.registry", "java.rmi/sun.rmi.server", "java.sql/java.sql", "jdk.unsupported/sun.misc",
    "jdk.compiler/com.sun.tools.javac.file", "jdk.attach/sun.tools.attach",
)  # fmt: skip
OPENED = (
    "java.base/java.io", "java.base/java.lang", "java.base/java.lang.module", "java.base/java.lang.reflect", "java.base/java.util",
    "java.base/java.nio", "java.base/sun.nio.ch", "java.base/jdk.internal.loader", "java.base/jdk.internal.math",
    "java.base/jdk.internal.module", "java.base/jdk.internal.ref", "java.base/jdk.internal.reflect", "java.base/jdk.internal.util.jar",
    "jdk.management/com.sun.management.internal",
)  # fmt: skip


def command(folder, configuration):
    """The command that starts a node."""
    libraries = SERVER / "target" / "dependency"
    (agent,) = libraries.glob("jamm-*.jar")
    exports = [option for package in EXPORTED for option in ("--add-exports", f"{package}=ALL-UNNAMED")]
    opens = [option for package in OPENED for option in ("--add-opens", f"{package}=ALL-UNNAMED")]
    properties = {
        "cassandra.config": configuration.as_uri(),
        "cassandra.storagedir": folder,
        "cassandra.logdir": folder,
        "cassandra-foreground": "yes",
        "logback.configurationFile": folder / "logback.xml",
        # A new cluster has nothing to wait for.
        "cassandra.skip_wait_for_gossip_to_settle": 0,
        "cassandra.ring_delay_ms": 2000,
        "jdk.attach.allowAttachSelf": "true",
        "io.netty.tryReflectionSetAccessible": "true",
    }
    settings = [f"-D{name}={value}" for name, value in properties.items()]
    return ["java", f"-Xms{HEAP}", f"-Xmx{HEAP}", f"-javaagent:{agent}", *exports, *opens, *settings,
            "-cp", f"{libraries}/*", "org.apache.cassandra.service.CassandraDaemon"]  # fmt: skip


def is_listening(host, port):
    with socket.create_connection((host, port), timeout=1):
        return True


def start(folder):
    """Starts the nodes and creates YCSB's table."""
    clients, peers = free_port(), free_port()
    commands = []
    for host in HOSTS:
        data = folder / host
        data.mkdir(parents=True)
        configuration = data / "cassandra.yaml"
        configuration.write_text(CONFIGURATION.format(host=host, peers=peers, clients=clients, seeds=",".join(HOSTS), data=data))
        (data / "logback.xml").write_text(LOGGING)
        commands.append(command(data, configuration))
    running = started(commands, [clients], lambda: all(is_listening(host, clients) for host in HOSTS), START_SECONDS_MAX)
    created = subprocess.run(["java", "-cp", CLASSES, "bench.CreateTable", ",".join(HOSTS), str(clients)], capture_output=True, text=True)
    if created.returncode:
        running.stop()
        raise StoreFailed(f"YCSB's table cannot be created: {created.stderr.strip().splitlines()[-1]}")
    return running
