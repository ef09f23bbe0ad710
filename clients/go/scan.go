package kvorum

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// span is the keys that a scan covers.
type span struct {
	prefix, start, end          string
	hasPrefix, hasStart, hasEnd bool
}

// Start is the first key of a scan.
func Start(key string) Option {
	return Option{"Start", ofListing, func(op *operation) error {
		op.span.start, op.span.hasStart = key, true
		return checkKey(key)
	}}
}

// End is the key before which a scan ends.
func End(key string) Option {
	return Option{"End", ofListing, func(op *operation) error {
		op.span.end, op.span.hasEnd = key, true
		return checkKey(key)
	}}
}

// Prefix is what all keys of a scan begin with.
func Prefix(prefix string) Option {
	return Option{"Prefix", ofListing, func(op *operation) error {
		op.span.prefix, op.span.hasPrefix = prefix, true
		return checkKey(prefix)
	}}
}

// Where is a condition, which the nodes evaluate: only entities that match it.
func Where(condition string) Option {
	return Option{"Where", ofListing, func(op *operation) error {
		op.where = condition
		if condition == "" {
			return argumentError("a condition is not empty")
		}
		return nil
	}}
}

// Limit is the greatest number of entities.
func Limit(limit uint64) Option {
	return Option{"Limit", ofScan, func(op *operation) error {
		op.limit = limit
		if limit < 1 {
			return argumentError("a limit is at least 1")
		}
		return nil
	}}
}

// OfNode covers the keys of the first node only, and not those of the whole cluster.
func OfNode() Option {
	return Option{"OfNode", ofListing, func(op *operation) error {
		op.isOfNode = true
		return nil
	}}
}

// WithoutValues reads keys and versions.
func WithoutValues() Option {
	return Option{"WithoutValues", ofScan, func(op *operation) error {
		op.omitsValues = true
		return nil
	}}
}

func newListing(kind operationKind, options []Option) (*operation, error) {
	op, err := newOperation(kind, options)
	if err == nil && op.span.hasPrefix && (op.span.hasStart || op.span.hasEnd) {
		err = argumentError("a prefix stands instead of start and end")
	}
	if err != nil {
		return nil, err
	}
	if op.span.hasPrefix {
		op.span.start, op.span.end = op.span.prefix, endOfPrefix(op.span.prefix)
		op.span.hasEnd = op.span.end != ""
	}
	if op.span.start == "" {
		op.span.start = "\x00"
	}
	return op, nil
}

// endOfPrefix returns the first key behind all that have a prefix; "" if there is none.
func endOfPrefix(prefix string) string {
	kept := strings.TrimRight(prefix, "\xff")
	if kept == "" {
		return ""
	}
	return kept[:len(kept)-1] + string([]byte{kept[len(kept)-1] + 1})
}

func (op *operation) isEmpty() bool { return op.span.hasEnd && op.span.end <= op.span.start }

func (c *Client) listingRequest(op *operation) *request {
	var query query
	query.add("start", op.span.start)
	if op.span.hasEnd {
		query.add("end", op.span.end)
	}
	if op.where != "" {
		query.add("where", op.where)
	}
	if op.limit > 0 {
		query.add("limit", strconv.FormatUint(op.limit, 10))
	}
	if op.omitsValues {
		query.add("values", "omit")
	}
	if op.kind == ofCount {
		query.add("count", "only")
	}
	if !op.isOfNode {
		query.add("scope", "cluster")
		query.addReplicas(op)
	}
	header := http.Header{}
	if op.kind == ofScan {
		header = http.Header{"Accept": {linesType}, "Te": {"trailers"}}
	}
	return &request{
		method:     http.MethodGet,
		target:     "/v0/entities?" + query.String(),
		header:     header,
		success:    http.StatusOK,
		attemptMax: c.timeoutOf(op),
		isStream:   op.kind == ofScan,
	}
}

// Count counts the entities of a scan.
func (c *Client) Count(ctx context.Context, options ...Option) (uint64, error) {
	op, err := newListing(ofCount, options)
	if err != nil || op.isEmpty() {
		return 0, err
	}
	var page struct {
		Count uint64 `json:"count"`
	}
	err = c.pageOf(ctx, c.listingRequest(op), &page, op)
	return page.Count, err
}

// Scan reads entities in the order of their keys. An interrupted stream continues behind its last key,
// at the next node. An error ends the scan: it comes with a nil entity.
//
//	for entity, err := range client.Scan(ctx, kvorum.Prefix("user/")) {
//		if err != nil {
//			return err
//		}
//	}
func (c *Client) Scan(ctx context.Context, options ...Option) iter.Seq2[*Entity, error] {
	return func(yield func(*Entity, error) bool) {
		op, err := newListing(ofScan, options)
		if err != nil {
			yield(nil, err)
			return
		}
		c.trace(ctx, op)
		scanner := newScanner(ctx, c, op)
		defer scanner.close()
		for {
			entity, err := scanner.next()
			if err == io.EOF || !yield(entity, err) || err != nil {
				return
			}
		}
	}
}

// scanner reads a scan over as many streams as it takes.
type scanner struct {
	client *Client
	ctx    context.Context
	cancel context.CancelFunc
	// op is what is still to be read.
	op *operation
	// failover is the search for a node since the last entity; nil if there was none.
	failover *failover
	stream   *entityStream
	isWhole  bool
}

func newScanner(ctx context.Context, client *Client, op *operation) *scanner {
	ctx, cancel := context.WithCancel(ctx)
	return &scanner{client: client, ctx: ctx, cancel: cancel, op: op, isWhole: op.isEmpty()}
}

func (s *scanner) close() {
	if s.stream != nil {
		s.stream.close()
		s.stream = nil
	}
	s.cancel()
}

// next returns the next entity; io.EOF at the end of the whole scan.
func (s *scanner) next() (*Entity, error) {
	s.failover = nil
	for !s.isWhole {
		if s.stream == nil {
			if err := s.open(); err != nil {
				return nil, err
			}
		}
		entity, err := s.stream.next(s.op)
		if err == nil {
			s.op.span.start = entity.Key + "\x00"
			return entity, nil
		}
		if err = s.ended(err); err != nil {
			return nil, err
		}
	}
	return nil, io.EOF
}

// open begins a stream with what is left.
func (s *scanner) open() error {
	if s.failover == nil {
		s.failover = s.client.newFailover(s.op)
	}
	got, err := s.failover.ask(s.ctx, s.client.listingRequest(s.op))
	if err != nil {
		return err
	}
	s.stream = newEntityStream(got, s.client.timeoutOf(s.op), s.op.limit)
	return nil
}

// ended takes the end of a stream. It returns an error if the scan cannot go on.
func (s *scanner) ended(err error) error {
	node, left := s.stream.node, s.stream.left
	isLimit := s.op.limit > 0 && left == 0
	s.stream.close()
	s.stream = nil
	if err == io.EOF || isLimit {
		s.isWhole = true
		return nil
	}
	s.client.nodes.failed(node, time.Now())
	if s.op.limit > 0 {
		s.op.limit = left
	}
	if s.failover == nil {
		s.failover = s.client.newFailover(s.op)
		s.failover.askLast(node)
	}
	met := &failed{Attempt: Attempt{Node: node.url, Status: http.StatusOK, Err: err}, meaning: unknown}
	return s.failover.note(s.ctx, &request{}, met)
}

// entityStream is the answer to one request of a scan.
type entityStream struct {
	*stream
	node   *node
	lines  *bufio.Reader
	count  uint64
	left   uint64
	digest hash.Hash32
}

func newEntityStream(got *answer, silenceMax time.Duration, limit uint64) *entityStream {
	digest := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	body := &boundedSilence{got.stream, silenceMax}
	lines := bufio.NewReaderSize(io.TeeReader(body, digest), 64<<10)
	return &entityStream{stream: got.stream, node: got.node, lines: lines, left: limit, digest: digest}
}

// next returns the next entity; io.EOF at the end of a whole stream.
func (s *entityStream) next(op *operation) (*Entity, error) {
	text, err := readLine(s.lines)
	if err == io.EOF {
		return nil, s.checkEnd()
	}
	if err != nil {
		return nil, err
	}
	parsed, err := parseLine(text)
	if err != nil {
		return nil, err
	}
	entity, err := parsed.entity()
	if err != nil {
		return nil, err
	}
	if entity.Key < op.span.start || op.span.hasEnd && entity.Key >= op.span.end {
		return nil, errors.New("a key is out of order")
	}
	if op.omitsValues {
		entity.Value = nil
	} else if entity.Value == nil {
		entity.Value = []byte{}
	}
	s.count++
	s.left--
	return entity, nil
}

// checkEnd returns io.EOF if a stream is whole: its trailers say what was sent.
func (s *entityStream) checkEnd() error {
	trailer := s.response.Trailer
	if sent := trailer.Get("Kvorum-Count"); sent != strconv.FormatUint(s.count, 10) {
		return fmt.Errorf("%d entities arrived, and %q were sent", s.count, sent)
	}
	digest := fmt.Sprintf("crc32c=%08X", s.digest.Sum32())
	if sent := trailer.Get("Kvorum-Digest"); sent != "" && !strings.EqualFold(sent, digest) {
		return fmt.Errorf("the digest of what arrived is %s, not %s", digest, sent)
	}
	return io.EOF
}

// boundedSilence ends a stream that brings no byte for some time.
type boundedSilence struct {
	stream *stream
	max    time.Duration
}

func (b *boundedSilence) Read(into []byte) (int, error) {
	timer := time.AfterFunc(b.max, func() { b.stream.cancel(errSilent) })
	defer timer.Stop()
	return b.stream.response.Body.Read(into)
}
