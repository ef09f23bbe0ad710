package kvorum

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

const oddKey = "go €/+&%\x00\xff"

func TestOperations(t *testing.T) {
	cluster := startCluster(t)
	ctx := context.Background()
	for name, test := range map[string]func(*testing.T, context.Context, *Client){
		"values":     values,
		"conditions": conditions,
		"ttl":        ttl,
		"batch":      batch,
		"scan":       scan,
		"where":      where,
		"aggregate":  aggregate,
		"pages":      pages,
		"refusals":   refusals,
		"traces":     traces,
	} {
		t.Run(name, func(t *testing.T) { test(t, ctx, cluster.client(0)) })
	}
	// This one is last, because it kills a node.
	t.Run("a killed node", func(t *testing.T) { killedNode(t, ctx, cluster) })
}

func TestTLSAndTokens(t *testing.T) {
	cluster := startCluster(t, "--trust")
	ctx := context.Background()
	client := cluster.client(1)
	_, err := client.Put(ctx, oddKey, []byte("safe"))
	check(t, err)
	cluster.order("stop 2")
	found, err := client.Get(ctx, oddKey)
	check(t, err)
	equal(t, string(found.Value), "safe")

	trusted := cluster.options
	cluster.options = Options{CAFile: trusted.CAFile}
	refused := errorOf[*RefusedError](t, second(cluster.client(0).Put(ctx, "k", nil)))
	equal(t, []any{refused.Status, refused.Type}, []any{401, "no-token"})
	cluster.options = Options{TokenFile: trusted.TokenFile}
	distrusted := errorOf[*UnavailableError](t, second(cluster.client(0).Put(ctx, "k", nil)))
	equal(t, distrusted.Status, 0)
}

func values(t *testing.T, ctx context.Context, client *Client) {
	for _, value := range []string{"text", "", "\x00\xff is bytes", strings.Repeat("long", 1<<18)} {
		written, err := client.Put(ctx, oddKey, []byte(value), Ack(2), From(3))
		check(t, err)
		found, err := client.Get(ctx, oddKey, Ack(2), From(3))
		check(t, err)
		equal(t, string(found.Value), value)
		equal(t, Written{found.Version, found.ETag}, written)
		head, err := client.Head(ctx, oddKey)
		check(t, err)
		equal(t, *head, Entity{Key: oddKey, Version: written.Version, ETag: written.ETag})
		same, err := client.Get(ctx, oddKey, IfNoneMatch(written.ETag))
		check(t, err)
		equal(t, []any{same.NotModified, same.Value == nil}, []any{true, true})
	}
	_, err := client.Delete(ctx, oddKey)
	check(t, err)
	for _, read := range []func(context.Context, string, ...Option) (*Entity, error){client.Get, client.Head} {
		_, err = read(ctx, oddKey)
		equal(t, errors.Is(err, ErrNotFound), true)
	}
}

func conditions(t *testing.T, ctx context.Context, client *Client) {
	const key = "condition"
	none := errorOf[*ConflictError](t, second(client.Put(ctx, key, nil, IfMatch("*"))))
	equal(t, []any{none.Version, none.ETag}, []any{uint64(0), ""})
	first, err := client.Put(ctx, key, []byte("1"), IfAbsent())
	check(t, err)
	taken := errorOf[*ConflictError](t, second(client.Put(ctx, key, []byte("2"), IfAbsent())))
	equal(t, Written{taken.Version, taken.ETag}, first)
	next, err := client.Put(ctx, key, []byte("2"), IfMatch(first.ETag))
	check(t, err)
	errorOf[*ConflictError](t, second(client.Delete(ctx, key, IfMatch(first.ETag))))
	errorOf[*ConflictError](t, second(client.Touch(ctx, key, IfVersion(first.Version))))
	_, err = client.Delete(ctx, key, IfVersion(next.Version))
	check(t, err)
}

func second(_ Written, err error) error { return err }

func ttl(t *testing.T, ctx context.Context, client *Client) {
	const key = "lease"
	_, err := client.Put(ctx, key, []byte("mine"), TTL(time.Hour))
	check(t, err)
	before, err := client.Get(ctx, key)
	check(t, err)
	_, err = client.Touch(ctx, key, TTL(2*time.Hour), IfMatch(before.ETag))
	check(t, err)
	after, err := client.Get(ctx, key)
	check(t, err)
	equal(t, string(after.Value), "mine")
	if !after.Expires.After(before.Expires.Add(30 * time.Minute)) {
		t.Fatalf("%v is not after %v", after.Expires, before.Expires)
	}
	_, err = client.Touch(ctx, key)
	check(t, err)
	forever, err := client.Head(ctx, key)
	check(t, err)
	equal(t, forever.Expires.IsZero(), true)
	errorOf[*ConflictError](t, second(client.Touch(ctx, "no such key", TTL(time.Hour))))
}

func batch(t *testing.T, ctx context.Context, client *Client) {
	results, err := client.Batch(ctx, []Operation{
		Put("b/1", []byte("<one>"), TTL(time.Hour)),
		Put("b/\xff", []byte("\xfe"), IfAbsent()),
		Get("b/1"),
		Get("b/\xff"),
		Put("b/1", []byte("other"), IfAbsent()),
		Touch("b/1"),
		Get("b/none"),
		Delete("b/1"),
	})
	check(t, err)
	var statuses []int
	for _, result := range results {
		statuses = append(statuses, result.Status)
	}
	equal(t, statuses, []int{201, 201, 200, 200, 412, 201, 404, 202})
	equal(t, string(results[2].Value), "<one>")
	equal(t, results[2].Expires.IsZero(), false)
	equal(t, string(results[3].Value), "\xfe")
	equal(t, errorOf[*ConflictError](t, results[4].Err).Version, results[0].Version)
	equal(t, results[6].Err, ErrNotFound)
	stale := Delete("b/\xff", IfVersion(results[0].Version))
	results, err = client.Batch(ctx, []Operation{stale, Put("b/long", make([]byte, 1))})
	check(t, err)
	errorOf[*ConflictError](t, results[0].Err)
	check(t, results[1].Err)
	_, err = client.Batch(ctx, []Operation{Put("b", make([]byte, batchBytesMax))})
	equal(t, errors.Is(err, ErrArgument), true)
}

func scan(t *testing.T, ctx context.Context, client *Client) {
	const count = 300
	var puts []Operation
	for i := range count {
		puts = append(puts, Put(fmt.Sprintf("scan/%03d", i), []byte(fmt.Sprint(i))))
	}
	puts = append(puts, Put("scan/\xff", []byte{0xff}))
	for _, result := range must(client.Batch(ctx, puts))(t) {
		check(t, result.Err)
	}
	var keys []string
	for entity, err := range client.Scan(ctx, Prefix("scan/")) {
		check(t, err)
		if i := len(keys); i < count {
			equal(t, string(entity.Value), fmt.Sprint(i))
		}
		keys = append(keys, entity.Key)
	}
	equal(t, []any{len(keys), keys[0], keys[count]}, []any{count + 1, "scan/000", "scan/\xff"})
	equal(t, must(client.Count(ctx, Prefix("scan/"), Ack(2), From(3)))(t), uint64(count+1))
	limited := 0
	for entity, err := range client.Scan(ctx, Start("scan/100"), End("scan/200"), Limit(7), WithoutValues()) {
		check(t, err)
		equal(t, []any{entity.Key, entity.Value == nil}, []any{fmt.Sprintf("scan/%d", 100+limited), true})
		limited++
	}
	equal(t, limited, 7)
	for _, err := range client.Scan(ctx, Prefix("scan/"), OfNode()) {
		check(t, err)
		break // The connection is closed; the client goes on.
	}
	for _, err := range client.Scan(ctx, Start("b"), End("a")) {
		t.Fatal("an empty range has something: ", err)
	}
	equal(t, must(client.Count(ctx, Prefix("scan/"), OfNode()))(t) > 0, true)
}

func putOrders(t *testing.T, ctx context.Context, client *Client) {
	results, err := client.Batch(ctx, []Operation{
		Put("order/1", []byte(`{"country":"DE","total":120.5}`)),
		Put("order/2", []byte(`{"country":"FR","total":80}`)),
		Put("order/3", []byte(`{"country":"DE","total":310}`)),
		Put("order/4", []byte(`{"country":"FR","total":150}`)),
		Put("order/note", []byte("call back")),
	})
	check(t, err)
	for _, result := range results {
		check(t, result.Err)
	}
}

func where(t *testing.T, ctx context.Context, client *Client) {
	putOrders(t, ctx, client)
	condition := Where("value.total > 100")
	var keys []string
	for entity, err := range client.Scan(ctx, Prefix("order/"), condition, WithoutValues()) {
		check(t, err)
		keys = append(keys, entity.Key)
	}
	equal(t, keys, []string{"order/1", "order/3", "order/4"})
	equal(t, must(client.Count(ctx, Prefix("order/"), condition))(t), uint64(3))
	equal(t, must(client.Count(ctx, Prefix("order/"), condition, OfNode()))(t), uint64(3))
	_, err := client.Count(ctx, Where("value.total >"))
	equal(t, errorOf[*RefusedError](t, err).Status, 400)
	for _, err := range client.Scan(ctx, Where("key")) {
		errorOf[*RefusedError](t, err)
	}
}

func aggregate(t *testing.T, ctx context.Context, client *Client) {
	putOrders(t, ctx, client)
	functions := []Function{Sum("value.total"), Min("value.total"), Max("version")}
	orders, by := Prefix("order/"), By("value.country", "value.total > 130")
	found := must(client.Aggregate(ctx, functions, orders, by, Where("key != 'order/2'"), Ack(2), From(3)))(t)
	equal(t, []any{found.Keys, found.Matched, found.Ack, found.From}, []any{uint64(5), uint64(4), 2, 3})
	var groups []any
	for _, group := range found.Groups {
		groups = append(groups, group.By, group.Count)
	}
	one := uint64(1)
	equal(t, groups, []any{
		[]any{"DE", false}, one, []any{"DE", true}, one, []any{"FR", true}, one, []any{nil, nil}, one,
	})
	version := json.Number(fmt.Sprint(must(client.Head(ctx, "order/1"))(t).Version))
	equal(t, found.Groups[0].Aggregates, []Aggregate{
		{"sum", json.Number("120.5"), 1}, {"min", json.Number("120.5"), 1}, {"max", version, 1},
	})
	equal(t, found.Groups[3].Aggregates[0], Aggregate{"sum", nil, 0})
	ofNode := must(client.Aggregate(ctx, nil, orders, OfNode()))(t)
	equal(t, *ofNode, Aggregates{5, 5, 0, 0, []Group{{[]any{}, 5, []Aggregate{}}}})
	_, err := client.Put(ctx, "binary/\xff", nil)
	check(t, err)
	equal(t, must(client.Aggregate(ctx, nil, Start("binary/\xff"), End("binary/\xff\x00")))(t).Keys, uint64(1))
	_, err = client.Aggregate(ctx, []Function{Sum("value +")})
	equal(t, errorOf[*RefusedError](t, err).Status, 400)
	_, err = client.Count(ctx, By("key"))
	equal(t, errors.Is(err, ErrArgument), true)
}

func must[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		check(t, err)
		return value
	}
}

func pages(t *testing.T, ctx context.Context, client *Client) {
	equal(t, len(must(client.Replicas(ctx, oddKey))(t)), 3)
	equal(t, strings.Contains(string(must(client.Status(ctx))(t)), `"version"`), true)
}

func refusals(t *testing.T, ctx context.Context, client *Client) {
	refused := errorOf[*RefusedError](t, second(client.Put(ctx, "k", nil, Ack(4), From(4))))
	equal(t, []any{refused.Status, refused.Type, len(refused.Attempts)}, []any{400, "bad-parameter", 1})
	for _, wrong := range []error{
		second(client.Put(ctx, "", nil)),
		second(client.Put(ctx, "k", nil, TTL(time.Millisecond))),
		second(client.Put(ctx, "k", nil, IfMatch("no tag"))),
		second(client.Put(ctx, "k", nil, Limit(1))),
		second(client.Put(ctx, "k", nil, IfMatch("*"), IfAbsent())),
	} {
		equal(t, errors.Is(wrong, ErrArgument), true)
	}
}

func traces(t *testing.T, ctx context.Context, client *Client) {
	const id = "4bf92f3577b34da6a3ce929d0e0e4736"
	err := second(client.Put(ctx, "k", nil, Ack(4), From(4), Traceparent("00-"+id+"-00f067aa0ba902b7-01")))
	equal(t, errorOf[*RefusedError](t, err).Problem.Trace, id)
	// The client asks its function once for each operation.
	calls := 0
	client.options.Traceparent = func(context.Context) string {
		calls++
		return "00-" + id + "-00f067aa0ba902b7-01"
	}
	_, err = client.Count(ctx, Prefix("k"), Ack(4), From(4))
	equal(t, []any{errorOf[*RefusedError](t, err).Problem.Trace, calls}, []any{id, 1})
}

// killedNode writes and reads while a node is killed: no operation fails, but that the outcome of writes
// may be unknown.
func killedNode(t *testing.T, ctx context.Context, cluster *cluster) {
	const workers, each = 4, 100
	var group, half sync.WaitGroup
	half.Add(workers)
	for worker := range workers {
		client := cluster.client(2)
		group.Add(1)
		go func() {
			defer group.Done()
			begun := sync.OnceFunc(half.Done)
			defer begun()
			for i := range each {
				if i == each/4 {
					begun()
				}
				key := fmt.Sprintf("killed/%d/%d", worker, i)
				_, err := client.Put(ctx, key, []byte(key))
				var unknown *UnknownOutcomeError
				if errors.As(err, &unknown) {
					continue
				}
				if err != nil {
					t.Errorf("a put: %v", err)
					return
				}
				found, err := client.Get(ctx, key)
				if err != nil || string(found.Value) != key {
					t.Errorf("a get: %v", err)
					return
				}
			}
		}()
	}
	half.Wait()
	cluster.order("kill 3")
	group.Wait()
	count := 0
	for _, err := range cluster.client(2).Scan(ctx, Prefix("killed/")) {
		check(t, err)
		count++
	}
	if count < workers*(each-1) {
		t.Fatalf("%d entities of %d", count, workers*each)
	}
	cluster.order("ready 3") // It starts again by itself.
	cluster.order("stop 3")
	receipt := errorOf[*UnknownOutcomeError](t, second(cluster.client(2).Put(ctx, "k", nil, Ack(3), From(3))))
	equal(t, []any{receipt.Status, len(receipt.Replicas), receipt.Version > 0}, []any{504, 3, true})
}
