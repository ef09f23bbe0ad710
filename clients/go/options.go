package kvorum

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const (
	keyBytesMax     = 4096
	conditionAny    = "*"
	ttlSecondsMax   = 281474976710
	replicaCountMax = 255
)

// Option of an operation. An option that the operation does not have is an error of arguments.
type Option struct {
	name  string
	of    operationKind
	apply func(*operation) error
}

type operationKind uint

const (
	ofGet operationKind = 1 << iota
	ofHead
	ofPut
	ofTouch
	ofDelete
	ofBatch
	ofScan
	ofCount
	ofAggregate
	ofPage
	ofAll     = ofGet | ofHead | ofPut | ofTouch | ofDelete | ofBatch | ofListing | ofPage
	ofEntity  = ofAll &^ ofPage
	ofWrite   = ofPut | ofTouch | ofDelete
	ofListing = ofScan | ofCount | ofAggregate
)

// operation is what an operation and its options ask for.
type operation struct {
	kind        operationKind
	timeout     time.Duration
	traceparent string
	ack, from   int
	ttl         time.Duration
	ifMatch     string
	ifNoneMatch string
	span        span
	where       string
	by          []string
	limit       uint64
	isOfNode    bool
	omitsValues bool
}

func newOperation(kind operationKind, options []Option) (*operation, error) {
	op := &operation{kind: kind}
	for _, option := range options {
		if option.of&kind == 0 {
			return nil, argumentError("this operation has no option %s", option.name)
		}
		if err := option.apply(op); err != nil {
			return nil, err
		}
	}
	if op.ifMatch != "" && op.ifNoneMatch != "" {
		return nil, argumentError("both IfMatch and IfAbsent")
	}
	return op, nil
}

// Timeout stands in place of that of the client; in a scan, a count or an aggregate, of its ScanTimeout.
func Timeout(timeout time.Duration) Option {
	return Option{"Timeout", ofAll, func(op *operation) error {
		if timeout <= 0 {
			return argumentError("a timeout is positive")
		}
		op.timeout = timeout
		return nil
	}}
}

// Traceparent is the header of W3C Trace Context, in place of that of the client.
func Traceparent(header string) Option {
	return Option{"Traceparent", ofAll, func(op *operation) error {
		op.traceparent = header
		return nil
	}}
}

// Ack is how many replicas must answer. Without Ack and From the pair of the cluster applies.
func Ack(count int) Option {
	return Option{"Ack", ofEntity, func(op *operation) error {
		op.ack = count
		return checkReplicaCount(count)
	}}
}

// From is how many replicas the key has for this request.
func From(count int) Option {
	return Option{"From", ofEntity, func(op *operation) error {
		op.from = count
		return checkReplicaCount(count)
	}}
}

func checkReplicaCount(count int) error {
	if count < 1 || count > replicaCountMax {
		return argumentError("Ack and From are 1 to %d", replicaCountMax)
	}
	return nil
}

// TTL after which the value expires: whole seconds.
func TTL(ttl time.Duration) Option {
	return Option{"TTL", ofPut | ofTouch, func(op *operation) error {
		if ttl < time.Second || ttl%time.Second != 0 || ttl/time.Second > ttlSecondsMax {
			return argumentError("a TTL is whole seconds, at least one")
		}
		op.ttl = ttl
		return nil
	}}
}

var plainTag = regexp.MustCompile(`^"[!#-~]*"$`)

// IfMatch has a write take effect only if the key has the value with this ETag; "*": if it has one.
func IfMatch(etag string) Option {
	return Option{"IfMatch", ofWrite, func(op *operation) error {
		if etag != conditionAny && !plainTag.MatchString(etag) {
			return argumentError("%q is no ETag", etag)
		}
		op.ifMatch = etag
		return nil
	}}
}

// IfVersion has a write take effect only if the key has the value with this version.
func IfVersion(version uint64) Option {
	option := IfMatch(etagOf(version))
	option.name = "IfVersion"
	return option
}

// IfAbsent has a put take effect only if the key has no value.
func IfAbsent() Option {
	return Option{"IfAbsent", ofPut, func(op *operation) error {
		op.ifNoneMatch = conditionAny
		return nil
	}}
}

// IfNoneMatch has a get return the value only if it has another ETag.
func IfNoneMatch(etag string) Option {
	return Option{"IfNoneMatch", ofGet, func(op *operation) error {
		if !plainTag.MatchString(etag) {
			return argumentError("%q is no ETag", etag)
		}
		op.ifNoneMatch = etag
		return nil
	}}
}

// etagOf returns a tag by which conditions know a version. They do not compare its hash.
func etagOf(version uint64) string { return fmt.Sprintf(`"%016x-%016x"`, version, 0) }

// versionOf returns the version in an ETag.
func versionOf(etag string) (uint64, bool) {
	if len(etag) != 35 || etag[17] != '-' {
		return 0, false
	}
	version, err := strconv.ParseUint(etag[1:17], 16, 64)
	return version, err == nil
}

func parseVersion(text string) (uint64, bool) {
	version, err := strconv.ParseUint(text, 10, 64)
	return version, err == nil
}

func checkKey(key string) error {
	if len(key) < 1 || len(key) > keyBytesMax {
		return argumentError("a key has 1 to %d bytes, this one %d", keyBytesMax, len(key))
	}
	return nil
}

// query is the part of a target behind the question mark.
type query struct{ strings.Builder }

func (q *query) add(name, value string) {
	if q.Len() > 0 {
		q.WriteByte('&')
	}
	q.WriteString(name + "=" + url.QueryEscape(value))
}

func (q *query) addReplicas(op *operation) {
	if op.ack > 0 {
		q.add("ack", strconv.Itoa(op.ack))
	}
	if op.from > 0 {
		q.add("from", strconv.Itoa(op.from))
	}
}

func (op *operation) conditions() http.Header {
	header := http.Header{}
	if op.ifMatch != "" {
		header.Set("If-Match", op.ifMatch)
	}
	if op.ifNoneMatch != "" {
		header.Set("If-None-Match", op.ifNoneMatch)
	}
	return header
}
