package kvorum

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"
)

const (
	backoffFirst = 100 * time.Millisecond
	backoffMax   = 2 * time.Second
)

// begin makes the context of an operation, which its timeout ends, and asks for its trace. Scans and
// counts and aggregates have no timeout as a whole.
func (c *Client) begin(ctx context.Context, op *operation) (context.Context, context.CancelFunc) {
	c.trace(ctx, op)
	if op.kind&ofListing != 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, c.timeoutOf(op))
}

func (c *Client) trace(ctx context.Context, op *operation) {
	if op.traceparent == "" && c.options.Traceparent != nil {
		op.traceparent = c.options.Traceparent(ctx)
	}
}

func (c *Client) timeoutOf(op *operation) time.Duration {
	switch {
	case op.timeout > 0:
		return op.timeout
	case op.kind&ofListing != 0:
		return c.options.ScanTimeout
	default:
		return c.options.Timeout
	}
}

// failover is one operation's way over the nodes: who has been asked, and what each said.
type failover struct {
	client *Client
	op     *operation
	// attempts has all that were made, failures those of the present round.
	attempts []Attempt
	failures []*failed
	// pending are the nodes that the round has not asked yet.
	pending []*node
	round   int
}

func (c *Client) newFailover(op *operation) *failover {
	return &failover{client: c, op: op, pending: c.nodesOf(op)}
}

// nodesOf returns the nodes to ask in a round.
func (c *Client) nodesOf(op *operation) []*node {
	if op.isOfNode {
		return slices.Clone(c.nodes.nodes[:1])
	}
	return c.nodes.round(time.Now())
}

// ask sends a request to one node after the other until one answers it.
func (c *Client) ask(ctx context.Context, r *request, op *operation) (*answer, error) {
	return c.newFailover(op).ask(ctx, r)
}

// ask goes on with the next node.
func (f *failover) ask(ctx context.Context, r *request) (*answer, error) {
	for {
		node, err := f.next(ctx)
		if err != nil {
			return nil, err
		}
		answer, met := f.client.attempt(ctx, node, r, f.op)
		if met == nil {
			return answer, nil
		}
		if err := f.note(ctx, r, met); err != nil {
			return nil, err
		}
	}
}

// next returns the node to ask, at the beginning of a new round after a pause.
func (f *failover) next(ctx context.Context) (*node, error) {
	if len(f.pending) == 0 {
		if f.round+1 >= f.client.options.Rounds || areLasting(f.failures) {
			return nil, unavailable(f.attempts, nil)
		}
		if !sleep(ctx, pause(f.round, f.failures)) {
			return nil, unavailable(f.attempts, context.Cause(ctx))
		}
		f.round++
		f.failures, f.pending = nil, f.client.nodesOf(f.op)
	}
	node := f.pending[0]
	f.pending = f.pending[1:]
	return node, nil
}

// note remembers what an attempt met. It returns the error with which the operation ends; nil if the
// next node may be asked.
func (f *failover) note(ctx context.Context, r *request, met *failed) error {
	f.attempts = append(f.attempts, met.Attempt)
	f.failures = append(f.failures, met)
	switch {
	case met.meaning == conflict:
		return conflictOf(met, f.attempts)
	case met.meaning == refused:
		return &RefusedError{Failure: failureOf(f.attempts, nil), Type: met.Problem.Type}
	case met.meaning == unknown && r.isWrite:
		return unknownOutcome(f.attempts, context.Cause(ctx))
	case ctx.Err() != nil:
		return unavailable(f.attempts, context.Cause(ctx))
	default:
		return nil
	}
}

// askLast has the round ask a node behind all others.
func (f *failover) askLast(last *node) {
	for i, node := range f.pending {
		if node == last {
			f.pending = append(slices.Delete(f.pending, i, i+1), last)
			return
		}
	}
}

func conflictOf(met *failed, attempts []Attempt) error {
	err := &ConflictError{Failure: failureOf(attempts, nil), ETag: met.header.Get("ETag")}
	err.Version, _ = parseVersion(met.header.Get("Kvorum-Version"))
	return err
}

func areLasting(failures []*failed) bool {
	for _, met := range failures {
		if !met.isLasting {
			return false
		}
	}
	return true
}

// pause after a round in which all nodes failed: longer with each round, and random, so that the
// clients of a busy cluster do not all come back at once.
func pause(round int, failures []*failed) time.Duration {
	backoff := min(backoffFirst<<min(round, 10), backoffMax)
	backoff = time.Duration(float64(backoff) * (0.5 + rand.Float64()/2))
	askedFor := backoffMax
	for _, met := range failures {
		askedFor = min(askedFor, met.retryAfter)
	}
	return max(backoff, askedFor)
}

// sleep waits; false if the context ends before.
func sleep(ctx context.Context, duration time.Duration) bool {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
