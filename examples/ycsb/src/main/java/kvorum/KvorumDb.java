package kvorum;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublisher;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.Vector;
import java.util.concurrent.atomic.AtomicInteger;
import org.codehaus.jackson.JsonNode;
import org.codehaus.jackson.map.ObjectMapper;
import site.ycsb.ByteArrayByteIterator;
import site.ycsb.ByteIterator;
import site.ycsb.DB;
import site.ycsb.DBException;
import site.ycsb.Status;

/**
 * YCSB over the HTTP API of Kvorum. A record is one entity: its key is TABLE/KEY, and its value
 * all fields, each as its name, the length of its bytes, and the bytes.
 *
 * <p>Properties: kvorum.urls, the nodes, separated by commas, which threads take in turn;
 * kvorum.replicas, ACK/FROM of each request, by default the cluster's; and kvorum.scope, what a
 * scan reads: one node, or the cluster.
 */
public class KvorumDb extends DB {
  private static final HttpClient HTTP =
      HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final Duration TIMEOUT = Duration.ofSeconds(10);
  private static final int ATTEMPTS_MAX = 20;
  private static final long PAUSE_MS = 5;
  private static final AtomicInteger THREADS = new AtomicInteger();

  private String url;
  private String replicas;
  private String scope;
  private int fieldCount;

  @Override
  public void init() throws DBException {
    String[] urls = getProperties().getProperty("kvorum.urls", "http://127.0.0.1:8080").split(",");
    url = urls[THREADS.getAndIncrement() % urls.length];
    String pair = getProperties().getProperty("kvorum.replicas", "");
    replicas = pair.isEmpty() ? "" : "&replicas=" + pair;
    boolean ofCluster = getProperties().getProperty("kvorum.scope", "node").equals("cluster");
    scope = ofCluster ? "&scope=cluster" + replicas : "";
    fieldCount = Integer.parseInt(getProperties().getProperty("fieldcount", "10"));
  }

  @Override
  public Status read(
      String table, String key, Set<String> fields, Map<String, ByteIterator> result) {
    return attempt(() -> {
      HttpResponse<byte[]> answer = send("GET", entity(table, key), BodyPublishers.noBody());
      if (answer.statusCode() == 200) {
        decode(answer.body(), fields, result);
      }
      return status(answer);
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
      String path = "/v0/entities?start=" + escaped(table, startKey) + "&limit=" + count + scope;
      HttpResponse<byte[]> answer = send("GET", path, BodyPublishers.noBody());
      if (answer.statusCode() != 200) {
        return status(answer);
      }
      String lines = new String(answer.body(), StandardCharsets.UTF_8);
      for (String line : lines.split("\n")) {
        if (line.isEmpty()) {
          continue;
        }
        JsonNode entity = JSON.readTree(line);
        JsonNode text = entity.get("value");
        byte[] value = text != null
            ? text.getTextValue().getBytes(StandardCharsets.UTF_8)
            : Base64.getDecoder().decode(entity.get("value_base64").getTextValue());
        HashMap<String, ByteIterator> record = new HashMap<>();
        decode(value, fields, record);
        result.add(record);
      }
      return Status.OK;
    });
  }

  /** Writes all fields, or those that are given into the record as it is. */
  @Override
  public Status update(String table, String key, Map<String, ByteIterator> values) {
    if (values.size() >= fieldCount) {
      return insert(table, key, values);
    }
    Map<String, ByteIterator> record = new HashMap<>();
    Status found = read(table, key, null, record);
    record.putAll(values);
    return found.isOk() ? insert(table, key, record) : found;
  }

  @Override
  public Status insert(String table, String key, Map<String, ByteIterator> values) {
    return attempt(() -> {
      BodyPublisher value = BodyPublishers.ofByteArray(encode(values));
      return status(send("PUT", entity(table, key), value));
    });
  }

  @Override
  public Status delete(String table, String key) {
    return attempt(() -> status(send("DELETE", entity(table, key), BodyPublishers.noBody())));
  }

  private interface Attempt {
    Status run() throws IOException, InterruptedException;
  }

  private Status attempt(Attempt attempt) {
    try {
      return attempt.run();
    } catch (IOException | InterruptedException error) {
      System.err.println(url + ": " + error);
      return Status.ERROR;
    }
  }

  private HttpResponse<byte[]> send(String method, String path, BodyPublisher body)
      throws IOException, InterruptedException {
    HttpRequest request = HttpRequest.newBuilder(URI.create(url + path))
        .timeout(TIMEOUT)
        .header("Accept", "application/x-ndjson")
        .method(method, body)
        .build();
    HttpResponse<byte[]> answer = HTTP.send(request, BodyHandlers.ofByteArray());
    // A node that is busy has done nothing.
    for (int attempt = 1; answer.statusCode() == 503 && attempt < ATTEMPTS_MAX; attempt++) {
      Thread.sleep(PAUSE_MS * attempt);
      answer = HTTP.send(request, BodyHandlers.ofByteArray());
    }
    return answer;
  }

  private static Status status(HttpResponse<byte[]> answer) {
    int status = answer.statusCode();
    int success = switch (answer.request().method()) {
      case "PUT" -> 201;
      case "DELETE" -> 202;
      default -> 200;
    };
    if (status == success) {
      return Status.OK;
    }
    return switch (status) {
      case 404 -> Status.NOT_FOUND;
      case 503 -> Status.SERVICE_UNAVAILABLE;
      default -> new Status(String.valueOf(status), new String(answer.body(), StandardCharsets.UTF_8));
    };
  }

  private String entity(String table, String key) {
    return "/v0/entity?id=" + escaped(table, key) + replicas;
  }

  private static String escaped(String table, String key) {
    return URLEncoder.encode(table + "/" + key, StandardCharsets.UTF_8);
  }

  private static byte[] encode(Map<String, ByteIterator> fields) throws IOException {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    DataOutputStream out = new DataOutputStream(bytes);
    for (Map.Entry<String, ByteIterator> field : fields.entrySet()) {
      byte[] value = field.getValue().toArray();
      out.writeUTF(field.getKey());
      out.writeInt(value.length);
      out.write(value);
    }
    return bytes.toByteArray();
  }

  private static void decode(
      byte[] bytes, Set<String> wanted, Map<String, ByteIterator> fields) throws IOException {
    DataInputStream in = new DataInputStream(new ByteArrayInputStream(bytes));
    while (in.available() > 0) {
      String name = in.readUTF();
      byte[] value = in.readNBytes(in.readInt());
      if (wanted == null || wanted.contains(name)) {
        fields.put(name, new ByteArrayByteIterator(value));
      }
    }
  }
}
