package bench;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.DriverException;
import com.datastax.oss.driver.api.core.metadata.Node;
import com.datastax.oss.driver.api.core.metadata.NodeState;
import java.util.Collection;

/** Creates YCSB's table with three copies, once three nodes are up: CreateTable HOSTS PORT. */
public class CreateTable {
  private static final int NODES = 3;
  private static final int ATTEMPTS_MAX = 60;

  public static void main(String[] arguments) throws InterruptedException {
    String reason = "";
    for (int attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
      try (CqlSession session = CassandraDb.connect(arguments[0], Integer.parseInt(arguments[1]))) {
        Collection<Node> nodes = session.getMetadata().getNodes().values();
        if (nodes.size() == NODES && nodes.stream().noneMatch(node -> node.getState() == NodeState.DOWN)) {
          create(session);
          return;
        }
        reason = "the nodes did not meet: " + nodes;
      } catch (DriverException error) {
        reason = error.toString();
      }
      Thread.sleep(1000);
    }
    System.err.println(reason);
    System.exit(1);
  }

  private static void create(CqlSession session) {
    session.execute("CREATE KEYSPACE IF NOT EXISTS ycsb WITH replication ="
        + " {'class': 'SimpleStrategy', 'replication_factor': 3}");
    session.execute(
        "CREATE TABLE IF NOT EXISTS ycsb.usertable (y_id text PRIMARY KEY, field0 blob)");
  }
}
