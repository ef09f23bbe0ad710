package kvorum

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
)

// Function is what the nodes compute of each group. [Sum], [Min] and [Max] make one.
type Function struct{ operation, expression string }

// Sum is the sum of the numbers that an expression has.
func Sum(expression string) Function { return Function{"sum", expression} }

// Min is the least number, time or text that an expression has.
func Min(expression string) Function { return Function{"min", expression} }

// Max is the greatest number, time or text that an expression has.
func Max(expression string) Function { return Function{"max", expression} }

// MarshalJSON writes the function as a node reads it.
func (f Function) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]string{f.operation: f.expression})
}

// Scalar is what an expression amounts to: nil, a bool, a [json.Number], which is exact, or a string. A
// time is text of RFC 3339.
type Scalar = any

// Aggregates is what all entities of a range amount to.
type Aggregates struct {
	// Keys is the number of entities that were looked at.
	Keys uint64 `json:"keys"`
	// Matched is the number of those that match the condition.
	Matched uint64 `json:"matched"`
	// Ack is how many replicas of each key had to answer; 0 with OfNode.
	Ack int `json:"ack"`
	// From is how many replicas each key has; 0 with OfNode.
	From   int     `json:"from"`
	Groups []Group `json:"groups"`
}

// Group is the entities that have the same values of By.
type Group struct {
	// By has a value for each expression; nil for what does not fit.
	By    []Scalar `json:"by"`
	Count uint64   `json:"count"`
	// Aggregates has a result for each function.
	Aggregates []Aggregate `json:"aggregates"`
}

// Aggregate is the result of a function.
type Aggregate struct {
	// Operation is sum, min or max.
	Operation string `json:"operation"`
	// Value is nil if nothing fitted, or if the sum is too great for a number.
	Value Scalar `json:"value"`
	// Counted is the number of entities whose value fitted.
	Counted uint64 `json:"counted"`
}

// By makes groups of the entities that have the same values of these expressions. Without it there is
// one group.
func By(expressions ...string) Option {
	return Option{"By", ofAggregate, func(op *operation) error {
		op.by = expressions
		return nil
	}}
}

// Aggregate has the nodes count the entities that a scan would have, and compute functions of them, in
// groups.
//
//	client.Aggregate(ctx, []kvorum.Function{kvorum.Sum("value.total")}, kvorum.By("value.country"))
func (c *Client) Aggregate(ctx context.Context, functions []Function, options ...Option) (*Aggregates, error) {
	op, err := newListing(ofAggregate, options)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(op.question(functions))
	if err != nil {
		return nil, argumentError("%v", err)
	}
	found := &Aggregates{}
	r := &request{
		method:     http.MethodPost,
		target:     "/v0/aggregate",
		header:     http.Header{"Content-Type": {"application/json"}},
		body:       body,
		success:    http.StatusOK,
		attemptMax: c.timeoutOf(op),
		parse:      func(content []byte) error { return found.parse(content) },
	}
	ctx, cancel := c.begin(ctx, op)
	defer cancel()
	if _, err = c.ask(ctx, r, op); err != nil {
		return nil, err
	}
	return found, nil
}

func (op *operation) question(functions []Function) map[string]any {
	fields := map[string]any{"by": append([]string{}, op.by...), "aggregates": append([]Function{}, functions...)}
	setBytes(fields, "start", op.span.start)
	if op.span.hasEnd {
		setBytes(fields, "end", op.span.end)
	}
	if op.where != "" {
		fields["where"] = op.where
	}
	if !op.isOfNode {
		fields["scope"] = "cluster"
		if op.ack > 0 {
			fields["ack"] = op.ack
		}
		if op.from > 0 {
			fields["from"] = op.from
		}
	}
	return fields
}

func (a *Aggregates) parse(content []byte) error {
	*a = Aggregates{}
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.UseNumber()
	if err := decoder.Decode(a); err != nil {
		return err
	}
	if a.Groups == nil {
		return errors.New("there are no groups")
	}
	return nil
}
