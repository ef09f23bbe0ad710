package kvorum

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// fake is a server whose answers are raw text. Each answer ends the connection.
type fake struct {
	url     string
	mutex   sync.Mutex
	heads   []string
	answers []string
}

// newFake answers the n-th request with the n-th answer, further ones with the last one.
func newFake(t *testing.T, answers ...string) *fake {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	t.Cleanup(func() { listener.Close() })
	f := &fake{url: "http://" + listener.Addr().String(), answers: answers}
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go f.serve(connection)
		}
	}()
	return f
}

func (f *fake) serve(connection net.Conn) {
	defer connection.Close()
	request, err := http.ReadRequest(bufio.NewReader(connection))
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, request.Body)
	f.mutex.Lock()
	answer := f.answers[min(len(f.heads), len(f.answers)-1)]
	f.heads = append(f.heads, request.Method+" "+request.RequestURI)
	f.mutex.Unlock()
	if answer == silent {
		_, _ = io.Copy(io.Discard, connection) // Until the client gives up.
	}
	// It says so, or the client might use the connection again at the moment in which it closes.
	_, _ = io.WriteString(connection, strings.Replace(answer, "\r\n", "\r\nConnection: close\r\n", 1))
}

func (f *fake) requests() []string {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return append([]string{}, f.heads...)
}

// waitFor waits until so many requests have come.
func (f *fake) waitFor(count int) {
	for len(f.requests()) < count {
		time.Sleep(time.Millisecond)
	}
}

const (
	silent  = "silent"
	cut     = ""
	created = "HTTP/1.1 201 Created\r\nKvorum-Version: 7\r\nETag: \"a\"\r\nContent-Length: 0\r\n\r\n"
	found   = "HTTP/1.1 200 OK\r\nKvorum-Version: 7\r\nContent-Length: 5\r\n\r\nvalue"
	half    = "HTTP/1.1 200 OK\r\nKvorum-Version: 7\r\nContent-Length: 5\r\n\r\nva"
	foreign = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	proxy   = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nno"
	endless = "HTTP/1.1 200 OK\r\nKvorum-Version: 7\r\n\r\nvalue"
)

func problem(status int, name, more string) string {
	body := fmt.Sprintf(`{"type":"urn:kvorum:problem:%s","status":%d,"detail":"why"%s}`, name, status, more)
	return fmt.Sprintf("HTTP/1.1 %d Problem\r\nContent-Type: application/problem+json\r\nRetry-After: 1\r\nContent-Length: %d\r\n\r\n%s",
		status, len(body), body)
}

var overloaded = problem(503, "overloaded", "")

func clientOf(t *testing.T, options Options, urls ...string) *Client {
	t.Helper()
	client, err := New(urls, options)
	check(t, err)
	t.Cleanup(func() { client.Close() })
	return client
}

func nobody(t *testing.T) string { return "http://" + freeAddress(t) }

func TestAWriteGoesOnWhereNothingWasDone(t *testing.T) {
	for _, answer := range []string{
		overloaded,
		problem(504, "not-enough-replicas", `,"outcome":"not-applied"`),
		problem(408, "late-body", ""),
		problem(400, "broken-body", ""),
	} {
		first, second := newFake(t, answer), newFake(t, created)
		client := clientOf(t, Options{}, nobody(t), first.url, second.url)
		written, err := client.Put(context.Background(), "k", []byte("v"))
		check(t, err)
		equal(t, written, Written{7, `"a"`})
		equal(t, []int{len(first.requests()), len(second.requests())}, []int{1, 1})
	}
}

// patienceFor bounds the wait for an answer only if it never comes.
func patienceFor(answer string) Options {
	if answer == silent {
		return Options{AttemptTimeout: time.Second, Timeout: time.Second}
	}
	return Options{}
}

func TestAWriteOfUnknownOutcomeIsSentOnce(t *testing.T) {
	for _, answer := range []string{
		cut, silent, foreign, proxy, endless, half,
		problem(500, "odd", ""),
		problem(504, "not-enough-replicas", `,"timestamp":"9","replicas":[{"url":"u","outcome":"timeout"}]`),
	} {
		first, second := newFake(t, answer), newFake(t, created)
		client := clientOf(t, patienceFor(answer), first.url, second.url)
		for _, write := range []func() error{
			func() error { _, err := client.Put(context.Background(), "k", []byte("v")); return err },
			func() error {
				_, err := client.Batch(context.Background(), []Operation{Get("k"), Delete("k")})
				return err
			},
		} {
			err := write()
			if answer == foreign && err == nil {
				continue
			}
			unknown := errorOf[*UnknownOutcomeError](t, err)
			if unknown.Status == 504 {
				equal(t, []any{unknown.Version, unknown.Replicas[0].Outcome}, []any{uint64(9), "timeout"})
			}
			client.nodes = newNodeList([]string{first.url, second.url})
		}
		// A silent one may not have read it when the client gives up.
		sent := len(first.requests())
		equal(t, []bool{sent == 2 || answer == silent && sent < 2, len(second.requests()) == 0}, []bool{true, true})
	}
}

func TestAReadGoesOnAfterAnyFailure(t *testing.T) {
	for _, answer := range []string{cut, silent, foreign, proxy, endless, half, overloaded, problem(500, "odd", "")} {
		first, second := newFake(t, answer), newFake(t, found)
		client := clientOf(t, patienceFor(answer), nobody(t), first.url, second.url)
		entity, err := client.Get(context.Background(), "k", Timeout(time.Minute))
		check(t, err)
		equal(t, string(entity.Value), "value")
	}
}

func TestAnAggregateGoesOnAtTheNextNode(t *testing.T) {
	json := func(body string) string {
		return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	}
	for _, answer := range []string{cut, foreign, json("{}"), problem(500, "odd", "")} {
		first, second := newFake(t, answer), newFake(t, json(`{"keys":1,"matched":1,"groups":[]}`))
		client := clientOf(t, Options{}, nobody(t), first.url, second.url)
		found, err := client.Aggregate(context.Background(), nil)
		check(t, err)
		equal(t, *found, Aggregates{1, 1, 0, 0, []Group{}})
		equal(t, first.requests(), []string{"POST /v0/aggregate"})
	}
}

func TestARefusalIsFinal(t *testing.T) {
	first, second := newFake(t, problem(403, "no-right", "")), newFake(t, found)
	client := clientOf(t, Options{}, first.url, second.url)
	_, err := client.Get(context.Background(), "k")
	equal(t, errorOf[*RefusedError](t, err).Type, "no-right")
	equal(t, len(second.requests()), 0)
}

func TestRoundsAreBounded(t *testing.T) {
	busy := newFake(t, overloaded)
	client := clientOf(t, Options{Rounds: 2}, busy.url)
	_, err := client.Put(context.Background(), "k", nil)
	unavailable := errorOf[*UnavailableError](t, err)
	equal(t, []any{unavailable.Status, len(unavailable.Attempts), len(busy.requests())}, []any{503, 2, 2})
}

func TestATimeoutEndsTheWaits(t *testing.T) {
	client := clientOf(t, Options{Rounds: 1000}, nobody(t))
	_, err := client.Get(context.Background(), "k", Timeout(300*time.Millisecond))
	errorOf[*UnavailableError](t, err)
	equal(t, errors.Is(err, context.DeadlineExceeded), true)
}

func TestACancelledWriteIsUnknownOnceItIsSent(t *testing.T) {
	quiet := newFake(t, silent)
	client := clientOf(t, Options{}, quiet.url)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		quiet.waitFor(1)
		cancel()
	}()
	_, err := client.Put(ctx, "k", []byte("v"))
	errorOf[*UnknownOutcomeError](t, err)
	equal(t, errors.Is(err, context.Canceled), true)
	_, err = client.Put(ctx, "k", []byte("v"))
	errorOf[*UnavailableError](t, err)
}

func TestSkippedNodesAreAskedLast(t *testing.T) {
	list := newNodeList([]string{"a", "b", "c"})
	now := time.Now()
	order := func(at time.Time) string {
		var urls []string
		for _, node := range list.round(at) {
			urls = append(urls, node.url)
		}
		return strings.Join(urls, "")
	}
	equal(t, order(now), "abc")
	list.answered(list.nodes[1], true)
	equal(t, order(now), "bca")
	list.failed(list.nodes[1], now)
	equal(t, order(now), "cab")
	equal(t, order(now.Add(skipFirst)), "bca")
	list.failed(list.nodes[1], now)
	equal(t, order(now.Add(skipFirst)), "cab")
	for range 50 {
		list.failed(list.nodes[1], now)
	}
	equal(t, order(now.Add(skipMax)), "bca")
	list.busy(list.nodes[2], now, 5*time.Second)
	equal(t, order(now.Add(4*time.Second)), "abc")
	list.answered(list.nodes[1], false)
	equal(t, order(now), "bac")
}

func TestPausesGrowAndHeedRetryAfter(t *testing.T) {
	for round, base := range []time.Duration{backoffFirst, 2 * backoffFirst, 4 * backoffFirst} {
		pause := pause(round, []*failed{{}})
		equal(t, pause >= base/2 && pause <= base, true)
	}
	equal(t, pause(40, nil) <= backoffMax, true)
	equal(t, pause(0, []*failed{{retryAfter: time.Second}, {retryAfter: time.Minute}}), time.Second)
	equal(t, pause(0, []*failed{{retryAfter: time.Second}, {}}) <= backoffFirst, true)
	equal(t, pause(0, []*failed{{retryAfter: time.Minute}}), backoffMax)
}

// lines makes the answer of a scan; without its end it is cut.
func scanOf(isWhole bool, count int, keys ...string) string {
	var body bytes.Buffer
	for _, key := range keys {
		fmt.Fprintf(&body, `{"key":"%s","value":"v","version":"7"}`+"\n", key)
	}
	head := "HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"
	chunk := fmt.Sprintf("%x\r\n%s\r\n", body.Len(), body.String())
	if body.Len() == 0 {
		chunk = ""
	}
	if !isWhole {
		return head + chunk
	}
	digest := crc32.Checksum(body.Bytes(), crc32.MakeTable(crc32.Castagnoli))
	return head + chunk + fmt.Sprintf("0\r\nKvorum-Count: %d\r\nKvorum-Digest: crc32c=%08X\r\n\r\n", count, digest)
}

func TestAScanResumesBehindItsLastKey(t *testing.T) {
	var keys string
	first, second := newFake(t, scanOf(false, 0, "a", "b"), scanOf(true, 9)), newFake(t, scanOf(false, 0, "c"), scanOf(true, 1, "d"))
	client := clientOf(t, Options{}, first.url, second.url)
	for entity, err := range client.Scan(context.Background(), Limit(9)) {
		check(t, err)
		keys += entity.Key
	}
	// The second answer of the first node does not fit its count.
	equal(t, keys, "abcd")
	equal(t, first.requests()[:2], []string{
		"GET /v0/entities?start=%00&limit=9&scope=cluster",
		"GET /v0/entities?start=c%00&limit=6&scope=cluster",
	})
	equal(t, second.requests()[0], "GET /v0/entities?start=b%00&limit=7&scope=cluster")
}

func TestAScanOfAllNodesThatFailEnds(t *testing.T) {
	client := clientOf(t, Options{Rounds: 2}, nobody(t), nobody(t))
	for _, err := range client.Scan(context.Background()) {
		equal(t, len(errorOf[*UnavailableError](t, err).Attempts), 4)
	}
}

func TestABatchThatIsCutKeepsWhatWasAnswered(t *testing.T) {
	line := `{"status":201,"version":"7"}` + "\n"
	answer := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(line), line)
	client := clientOf(t, Options{}, newFake(t, answer).url)
	results, err := client.Batch(context.Background(), []Operation{Put("a", nil), Put("b", nil), Get("c")})
	check(t, err)
	equal(t, []any{results[0].Status, results[0].Version, results[0].Err}, []any{201, uint64(7), nil})
	errorOf[*UnknownOutcomeError](t, results[1].Err)
	errorOf[*UnavailableError](t, results[2].Err)
}

func TestMoreRequestsThanConnectionsWait(t *testing.T) {
	var running, most atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		now := running.Add(1)
		for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
		}
		time.Sleep(5 * time.Millisecond)
		running.Add(-1)
		w.Header().Set("Kvorum-Version", "7")
		w.WriteHeader(http.StatusCreated)
	}))
	defer server.Close()
	client := clientOf(t, Options{Connections: 2}, server.URL)
	var group sync.WaitGroup
	for range 16 {
		group.Add(1)
		go func() {
			defer group.Done()
			if _, err := client.Put(context.Background(), "k", []byte("v")); err != nil {
				t.Error(err)
			}
		}()
	}
	group.Wait()
	equal(t, most.Load(), int32(2))
}
