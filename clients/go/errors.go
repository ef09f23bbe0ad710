package kvorum

import (
	"errors"
	"fmt"
	"strings"
)

// ErrNotFound says that a key has no value.
var ErrNotFound = errors.New("kvorum: the key has no value")

// Replica is a node as a replica of a key: its name, and, in a receipt, what became of the request.
type Replica struct {
	Name    string `json:"name"`
	URL     string `json:"url"`
	Outcome string `json:"outcome"`
}

// Problem is why a node did not do what it was asked for (RFC 9457).
type Problem struct {
	// Type names the problem, such as not-enough-replicas.
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	// Detail is for people: its words may change.
	Detail string `json:"detail"`
	// Outcome of a conditional write: not-applied or unknown.
	Outcome string `json:"outcome"`
	// Timestamp is the version of a write that ended without enough acks.
	Timestamp uint64 `json:"timestamp,string"`
	// Replicas is the receipt: what became of the request at each replica.
	Replicas []Replica `json:"replicas"`
	// Trace is the ID of the trace of the request.
	Trace string `json:"trace"`
}

// Attempt is what one request to one node met.
type Attempt struct {
	// Node is its URL.
	Node string
	// Status is that of the answer; 0 without one.
	Status int
	// Problem is what the node said; nil if it was no problem of a node.
	Problem *Problem
	// Err is why there was no answer of a node; nil if there was one.
	Err error
}

func (a Attempt) String() string {
	switch {
	case a.Problem != nil:
		return fmt.Sprintf("%s answers %d (%s): %s", a.Node, a.Status, a.Problem.Type, a.Problem.Detail)
	case a.Err != nil:
		return fmt.Sprintf("%s: %v", a.Node, a.Err)
	default:
		return fmt.Sprintf("%s answers %d", a.Node, a.Status)
	}
}

// Failure is what all errors of operations have.
type Failure struct {
	// Status and Problem are those of the last answer; 0 and nil if there was none.
	Status  int
	Problem *Problem
	// Attempts is what each attempt met.
	Attempts []Attempt
	// cause is the error of the context, or else of the last attempt.
	cause error
}

// Unwrap returns the error of the context, if that ended the operation, or else of the last attempt.
func (f *Failure) Unwrap() error { return f.cause }

// UnavailableError says that no node did what it was asked for, and that nothing was written.
type UnavailableError struct{ Failure }

// UnknownOutcomeError says that a write may have taken effect, or may still. It was not repeated: a
// repeat is a new write, which also replaces what others have written meanwhile.
type UnknownOutcomeError struct {
	Failure
	// Version of the attempt, if the receipt names it; otherwise 0.
	Version uint64
	// Replicas is the receipt, if there is one.
	Replicas []Replica
}

// ConflictError says that the condition of a write does not hold. Nothing was written.
type ConflictError struct {
	Failure
	// Version and ETag are those of the value that the key has; 0 and "" if it has none.
	Version uint64
	ETag    string
}

// RefusedError says that a request is wrong, or may not be served.
type RefusedError struct {
	Failure
	// Type of the problem, such as bad-parameter.
	Type string
}

func (e *UnavailableError) Error() string { return "kvorum: no node could serve it" + e.reasons() }

func (e *UnknownOutcomeError) Error() string {
	return "kvorum: the write may have taken effect, or may still" + e.reasons()
}

func (e *ConflictError) Error() string {
	if e.Version == 0 {
		return "kvorum: nothing was written: the key has no value"
	}
	return fmt.Sprintf("kvorum: nothing was written: the key has version %d", e.Version)
}

func (e *RefusedError) Error() string { return "kvorum: refused" + e.reasons() }

const attemptsShownMax = 8

// reasons returns the last attempts and the cause as one text.
func (f *Failure) reasons() string {
	var said []string
	for _, attempt := range f.Attempts[max(0, len(f.Attempts)-attemptsShownMax):] {
		said = append(said, attempt.String())
	}
	if f.cause != nil && (len(f.Attempts) == 0 || f.cause != f.Attempts[len(f.Attempts)-1].Err) {
		said = append(said, f.cause.Error())
	}
	if len(said) == 0 {
		return ""
	}
	return ": " + strings.Join(said, "; ")
}

// failureOf makes the common part of an error. cause is the error of the context, if that is why.
func failureOf(attempts []Attempt, cause error) Failure {
	failure := Failure{Attempts: attempts, cause: cause}
	for i := len(attempts) - 1; i >= 0; i-- {
		if attempts[i].Status != 0 {
			failure.Status, failure.Problem = attempts[i].Status, attempts[i].Problem
			break
		}
	}
	if cause == nil && len(attempts) > 0 {
		failure.cause = attempts[len(attempts)-1].Err
	}
	return failure
}

func unavailable(attempts []Attempt, cause error) error {
	return &UnavailableError{Failure: failureOf(attempts, cause)}
}

func unknownOutcome(attempts []Attempt, cause error) error {
	err := &UnknownOutcomeError{Failure: failureOf(attempts, cause)}
	if len(attempts) > 0 {
		if problem := attempts[len(attempts)-1].Problem; problem != nil {
			err.Version, err.Replicas = problem.Timestamp, problem.Replicas
		}
	}
	return err
}
