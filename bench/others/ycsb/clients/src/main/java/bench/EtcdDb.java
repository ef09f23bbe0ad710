package bench;

import io.etcd.jetcd.ByteSequence;
import io.etcd.jetcd.Client;
import io.etcd.jetcd.KV;
import io.etcd.jetcd.KeyValue;
import io.etcd.jetcd.options.GetOption;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * YCSB over jetcd. Reads and ranges are linearizable, which is etcd's default.
 *
 * <p>Property: etcd.endpoints, the nodes, separated by commas. Threads take them in turn; the
 * threads of a node share its connection, which carries many requests at a time.
 */
public class EtcdDb extends OneFieldDb {
  /** Behind all keys of YCSB, which begin with a letter. */
  private static final ByteSequence END = bytes("~");
  private static final AtomicInteger THREADS = new AtomicInteger();
  private static final Map<String, Client> CLIENTS = new ConcurrentHashMap<>();

  private KV store;

  @Override
  public void init() {
    String[] endpoints = getProperties().getProperty("etcd.endpoints").split(",");
    String endpoint = endpoints[THREADS.getAndIncrement() % endpoints.length];
    store = CLIENTS
        .computeIfAbsent(endpoint, url -> Client.builder().endpoints(url).build())
        .getKVClient();
  }

  @Override
  byte[] get(String key) throws Exception {
    List<KeyValue> found = answer(store.get(bytes(key))).getKvs();
    return found.isEmpty() ? null : found.get(0).getValue().getBytes();
  }

  @Override
  List<byte[]> range(String startKey, int count) throws Exception {
    GetOption range = GetOption.builder().withRange(END).withLimit(count).build();
    List<KeyValue> found = answer(store.get(bytes(startKey), range)).getKvs();
    return found.stream().map(record -> record.getValue().getBytes()).toList();
  }

  @Override
  void put(String key, byte[] value) throws Exception {
    answer(store.put(bytes(key), ByteSequence.from(value)));
  }

  @Override
  void remove(String key) throws Exception {
    answer(store.delete(bytes(key)));
  }

  private static <T> T answer(Future<T> request) throws Exception {
    return request.get(TIMEOUT_SECONDS, TimeUnit.SECONDS);
  }

  private static ByteSequence bytes(String key) {
    return ByteSequence.from(key, StandardCharsets.UTF_8);
  }
}
