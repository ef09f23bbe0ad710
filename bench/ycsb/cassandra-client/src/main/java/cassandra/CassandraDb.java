package cassandra;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.CqlSessionBuilder;
import com.datastax.oss.driver.api.core.DefaultConsistencyLevel;
import com.datastax.oss.driver.api.core.DriverException;
import com.datastax.oss.driver.api.core.config.DefaultDriverOption;
import com.datastax.oss.driver.api.core.config.DriverConfigLoader;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import com.datastax.oss.driver.api.core.cql.ResultSet;
import com.datastax.oss.driver.api.core.cql.Row;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.Vector;
import site.ycsb.ByteArrayByteIterator;
import site.ycsb.ByteIterator;
import site.ycsb.DB;
import site.ycsb.Status;

/**
 * YCSB over Cassandra's own driver. A record has one field (`fieldcount=1`) and is a row of the
 * table ycsb.usertable. Every statement asks a quorum. A scan reads rows in the order of the hashes
 * of their keys.
 *
 * <p>Properties: cassandra.hosts, the addresses of the nodes, separated by commas, and
 * cassandra.port. All threads share a session, as the driver wants it.
 */
public class CassandraDb extends DB {
  private static final String FIELD = "field0";
  private static final Duration TIMEOUT = Duration.ofSeconds(10);

  private static CqlSession session;
  private static PreparedStatement read;
  private static PreparedStatement scan;
  private static PreparedStatement write;
  private static PreparedStatement delete;

  /** Connects to the nodes, to none of them in particular. */
  static CqlSession connect(String hosts, int port) {
    CqlSessionBuilder builder = CqlSession.builder()
        .withLocalDatacenter("datacenter1")
        .withConfigLoader(DriverConfigLoader.programmaticBuilder()
            .withDuration(DefaultDriverOption.REQUEST_TIMEOUT, TIMEOUT)
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
        read = session.prepare("SELECT field0 FROM ycsb.usertable WHERE y_id = ?");
        scan = session.prepare(
            "SELECT field0 FROM ycsb.usertable WHERE token(y_id) >= token(?) LIMIT ?");
        write = session.prepare("INSERT INTO ycsb.usertable (y_id, field0) VALUES (?, ?)");
        delete = session.prepare("DELETE FROM ycsb.usertable WHERE y_id = ?");
      }
    }
  }

  @Override
  public Status read(
      String table, String key, Set<String> fields, Map<String, ByteIterator> result) {
    return attempt(() -> {
      Row row = session.execute(read.bind(key)).one();
      if (row == null) {
        return Status.NOT_FOUND;
      }
      result.put(FIELD, value(row));
      return Status.OK;
    });
  }

  @Override
  public Status scan(
      String table,
      String startKey,
      int count,
      Set<String> fields,
      Vector<HashMap<String, ByteIterator>> result) {
    return attempt(() -> {
      ResultSet rows = session.execute(scan.bind(startKey, count));
      for (Row row : rows) {
        result.add(new HashMap<>(Map.of(FIELD, value(row))));
      }
      return Status.OK;
    });
  }

  @Override
  public Status update(String table, String key, Map<String, ByteIterator> values) {
    return insert(table, key, values);
  }

  @Override
  public Status insert(String table, String key, Map<String, ByteIterator> values) {
    return attempt(() -> {
      session.execute(write.bind(key, ByteBuffer.wrap(values.get(FIELD).toArray())));
      return Status.OK;
    });
  }

  @Override
  public Status delete(String table, String key) {
    return attempt(() -> {
      session.execute(delete.bind(key));
      return Status.OK;
    });
  }

  private interface Attempt {
    Status run();
  }

  private static Status attempt(Attempt attempt) {
    try {
      return attempt.run();
    } catch (DriverException error) {
      System.err.println(error);
      return Status.ERROR;
    }
  }

  private static ByteIterator value(Row row) {
    ByteBuffer bytes = row.getByteBuffer(0);
    byte[] value = new byte[bytes.remaining()];
    bytes.get(value);
    return new ByteArrayByteIterator(value);
  }
}
