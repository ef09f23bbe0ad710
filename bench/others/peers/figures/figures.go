// Package figures contains what the load generators share: their options, the
// choice of keys and values, the latencies, and the report.
//
// Each generator runs a closed loop: a connection has one request in flight and
// sends the next one when it has a response. A generator prints `begin` at the
// end of the warm-up and `end` at the end of the measured time, so that its
// caller can read the CPU time of the servers at both times. Then it prints a
// [Report] as one line of JSON. With -fill it puts each key once instead and
// prints nothing.
package figures

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// KeyBytes is the length of a key, ValueBytes that of a value.
const (
	KeyBytes   = 16
	ValueBytes = 64
)

// A run with this many failures ends.
const errorsMax = 1000

// Options are the arguments that all generators take.
type Options struct {
	Addresses   []string // HOST:PORT; connections are spread over them
	Connections int
	Keys        uint64
	WarmUp      time.Duration
	Duration    time.Duration
	Put         bool // otherwise get
	Fill        bool
}

// ParseOptions parses the command line, including flags that the caller has
// defined. It ends the program if an option is wrong.
func ParseOptions() Options {
	var options Options
	addresses := flag.String("addresses", "", "the servers, as HOST:PORT,HOST:PORT")
	method := flag.String("method", "put", "put or get")
	flag.IntVar(&options.Connections, "connections", 64, "number of connections, each with one request in flight")
	flag.Uint64Var(&options.Keys, "keys", 100_000, "number of keys")
	flag.DurationVar(&options.WarmUp, "warm-up", 500*time.Millisecond, "the time before the measured time")
	flag.DurationVar(&options.Duration, "duration", 3*time.Second, "the measured time")
	flag.BoolVar(&options.Fill, "fill", false, "put each key once, and measure nothing")
	flag.Parse()
	options.Addresses = strings.Split(*addresses, ",")
	options.Put = options.Fill || *method == "put"
	switch {
	case *addresses == "":
		Fail("-addresses is missing: give the servers as HOST:PORT,HOST:PORT")
	case *method != "put" && *method != "get":
		Fail("-method is %q: give put or get", *method)
	case options.Connections < 1 || options.Keys < 1 || options.Duration <= 0 || options.WarmUp < 0:
		Fail("-connections, -keys and -duration must be above 0, -warm-up at least 0")
	case flag.NArg() > 0:
		Fail("%q is not an option", flag.Arg(0))
	}
	return options
}

// Fail prints a line to standard error and ends the program.
func Fail(format string, arguments ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", arguments...)
	os.Exit(1)
}

// Choice chooses keys and values for one connection.
type Choice struct {
	source *rand.PCG
	keys   uint64
	key    [KeyBytes]byte
	value  [ValueBytes]byte
}

// NewChoice gives each connection a seed of its own, the same in every run.
func NewChoice(keys uint64, connection int) *Choice {
	choice := &Choice{source: rand.NewPCG(uint64(connection), 1), keys: keys}
	copy(choice.key[:], "key-")
	return choice
}

// Key returns a key, each with equal probability; valid until the next call.
func (choice *Choice) Key() []byte {
	return choice.KeyOf(choice.source.Uint64() % choice.keys)
}

// KeyOf returns the key with this number; valid until the next call.
func (choice *Choice) KeyOf(number uint64) []byte {
	for index := KeyBytes - 1; index >= len("key-"); index-- {
		choice.key[index] = byte('0' + number%10)
		number /= 10
	}
	return choice.key[:]
}

// Value returns random letters and digits, which hardly compress; valid until
// the next call.
func (choice *Choice) Value() []byte {
	const symbols = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"
	for start := 0; start < ValueBytes; start += 8 {
		bits := choice.source.Uint64()
		for index := start; index < start+8; index++ {
			choice.value[index] = symbols[bits&63]
			bits >>= 6
		}
	}
	return choice.value[:]
}

// Figures counts responses and their latencies in buckets of a microsecond. Any
// number of connections may use it concurrently.
type Figures struct {
	measuring atomic.Bool
	errors    atomic.Uint64
	first     atomic.Pointer[error]
	buckets   [1 << 20]atomic.Uint32 // the last one counts all latencies above a second
}

// Answered counts a successful request.
func (figures *Figures) Answered(latency time.Duration) {
	if figures.measuring.Load() {
		bucket := min(latency.Microseconds(), int64(len(figures.buckets))-1)
		figures.buckets[bucket].Add(1)
	}
}

// Failed counts a failed request. Too many end the program.
func (figures *Figures) Failed(err error) {
	figures.first.CompareAndSwap(nil, &err)
	if figures.errors.Add(1) >= errorsMax {
		Fail("%d requests failed, the first with: %v", errorsMax, *figures.first.Load())
	}
}

// Begin starts the measured time and prints `begin`.
func (figures *Figures) Begin() {
	figures.measuring.Store(true)
	fmt.Println("begin")
}

// Report holds the results of a run. Latencies are in milliseconds.
type Report struct {
	Seconds  float64 `json:"seconds"`
	Requests uint64  `json:"requests"`
	Errors   uint64  `json:"errors"`
	First    string  `json:"first_error,omitempty"`
	P50      float64 `json:"p50"`
	P99      float64 `json:"p99"`
	P999     float64 `json:"p999"`
	Max      float64 `json:"max"`
}

// End ends the measured time, which lasted `took`, prints `end` and the report.
func (figures *Figures) End(took time.Duration) {
	figures.measuring.Store(false)
	fmt.Println("end")
	report := Report{Seconds: took.Seconds(), Errors: figures.errors.Load()}
	if first := figures.first.Load(); first != nil {
		report.First = (*first).Error()
	}
	for bucket := range figures.buckets {
		report.Requests += uint64(figures.buckets[bucket].Load())
	}
	marks := []struct {
		share float64
		into  *float64
	}{{0.5, &report.P50}, {0.99, &report.P99}, {0.999, &report.P999}, {1, &report.Max}}
	var seen uint64
	for bucket := range figures.buckets {
		seen += uint64(figures.buckets[bucket].Load())
		for len(marks) > 0 && seen > 0 && float64(seen) >= marks[0].share*float64(report.Requests) {
			*marks[0].into = float64(bucket+1) / 1e3
			marks = marks[1:]
		}
	}
	line, err := json.Marshal(report)
	if err != nil {
		Fail("the report cannot be written: %v", err)
	}
	fmt.Println(string(line))
}
