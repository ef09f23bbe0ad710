package bench;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.Vector;
import site.ycsb.ByteArrayByteIterator;
import site.ycsb.ByteIterator;
import site.ycsb.DB;
import site.ycsb.Status;

/** A binding of YCSB for a store of keys and values. A record has one field (`fieldcount=1`). */
abstract class OneFieldDb extends DB {
  static final long TIMEOUT_SECONDS = 10;
  private static final String FIELD = "field0";

  /** The value of a key, or null if there is none. */
  abstract byte[] get(String key) throws Exception;

  /** The values of up to `count` keys, from a key on. */
  abstract List<byte[]> range(String startKey, int count) throws Exception;

  abstract void put(String key, byte[] value) throws Exception;

  abstract void remove(String key) throws Exception;

  @Override
  public Status read(
      String table, String key, Set<String> fields, Map<String, ByteIterator> result) {
    return attempt(() -> {
      byte[] value = get(key);
      if (value == null) {
        return Status.NOT_FOUND;
      }
      result.put(FIELD, new ByteArrayByteIterator(value));
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
      for (byte[] value : range(startKey, count)) {
        result.add(new HashMap<>(Map.of(FIELD, new ByteArrayByteIterator(value))));
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
      put(key, values.get(FIELD).toArray());
      return Status.OK;
    });
  }

  @Override
  public Status delete(String table, String key) {
    return attempt(() -> {
      remove(key);
      return Status.OK;
    });
  }

  private interface Attempt {
    Status run() throws Exception;
  }

  private static Status attempt(Attempt attempt) {
    try {
      return attempt.run();
    } catch (Exception error) {
      System.err.println(error);
      return Status.ERROR;
    }
  }
}
