package bench;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.CqlSessionBuilder;
import com.datastax.oss.driver.api.core.DefaultConsistencyLevel;
import com.datastax.oss.driver.api.core.config.DefaultDriverOption;
import com.datastax.oss.driver.api.core.config.DriverConfigLoader;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import com.datastax.oss.driver.api.core.cql.Row;
import com.datastax.oss.protocol.internal.util.Bytes;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/**
 * YCSB over Cassandra's own driver. A record is a row of the table ycsb.usertable. Every statement
 * asks a quorum. A scan reads rows in the order of the hashes of their keys.
 *
 * <p>Properties: cassandra.hosts, the addresses of the nodes, separated by commas, and
 * cassandra.port. All threads share a session, as the driver wants it.
 */
public class CassandraDb extends OneFieldDb {
  private static CqlSession session;
  private static PreparedStatement get;
  private static PreparedStatement range;
  private static PreparedStatement put;
  private static PreparedStatement remove;

  /** Connects to the nodes. */
  static CqlSession connect(String hosts, int port) {
    CqlSessionBuilder builder = CqlSession.builder()
        .withLocalDatacenter("datacenter1")
        .withConfigLoader(DriverConfigLoader.programmaticBuilder()
            .withDuration(
                DefaultDriverOption.REQUEST_TIMEOUT, Duration.ofSeconds(TIMEOUT_SECONDS))
            .withString(
                DefaultDriverOption.REQUEST_CONSISTENCY, DefaultConsistencyLevel.QUORUM.name())
            .build());
    for (String host : hosts.split(",")) {
      builder.addContactPoint(new InetSocketAddress(host, port));
    }
    return builder.build();
  }

  @Override
  public void init() {
    synchronized (CassandraDb.class) {
      if (session == null) {
        int port = Integer.parseInt(getProperties().getProperty("cassandra.port"));
        session = connect(getProperties().getProperty("cassandra.hosts"), port);
        get = session.prepare("SELECT field0 FROM ycsb.usertable WHERE y_id = ?");
        range = session.prepare(
            "SELECT field0 FROM ycsb.usertable WHERE token(y_id) >= token(?) LIMIT ?");
        put = session.prepare("INSERT INTO ycsb.usertable (y_id, field0) VALUES (?, ?)");
        remove = session.prepare("DELETE FROM ycsb.usertable WHERE y_id = ?");
      }
    }
  }

  @Override
  byte[] get(String key) {
    Row row = session.execute(get.bind(key)).one();
    return row == null ? null : value(row);
  }

  @Override
  List<byte[]> range(String startKey, int count) {
    List<byte[]> values = new ArrayList<>();
    session.execute(range.bind(startKey, count)).forEach(row -> values.add(value(row)));
    return values;
  }

  @Override
  void put(String key, byte[] value) {
    session.execute(put.bind(key, ByteBuffer.wrap(value)));
  }

  @Override
  void remove(String key) {
    session.execute(remove.bind(key));
  }

  private static byte[] value(Row row) {
    return Bytes.getArray(row.getByteBuffer(0));
  }
}
