package figures

import (
	"sync"
	"sync/atomic"
	"time"
)

// Ask sends one request and waits for its response; an unexpected response is an
// error. Key and value are valid during the call.
type Ask func(key, value []byte) error

// Run is the closed loop for blocking clients, with a goroutine per connection.
// It returns at the end of the measured time, or with -fill when all keys are put.
func Run(options Options, asks []Ask) {
	if options.Fill {
		fill(options, asks)
		return
	}
	figures := new(Figures)
	var stopped atomic.Bool
	var running sync.WaitGroup
	for connection, ask := range asks {
		running.Go(func() {
			choice := NewChoice(options.Keys, connection)
			for !stopped.Load() {
				key, value := choice.Key(), []byte(nil)
				if options.Put {
					value = choice.Value()
				}
				sent := time.Now()
				if err := ask(key, value); err != nil {
					figures.Failed(err)
				} else {
					figures.Answered(time.Since(sent))
				}
			}
		})
	}
	time.Sleep(options.WarmUp)
	figures.Begin()
	began := time.Now()
	time.Sleep(options.Duration)
	figures.End(time.Since(began))
	stopped.Store(true)
	running.Wait()
}

func fill(options Options, asks []Ask) {
	var next atomic.Uint64
	var running sync.WaitGroup
	for connection, ask := range asks {
		running.Go(func() {
			choice := NewChoice(options.Keys, connection)
			for number := next.Add(1) - 1; number < options.Keys; number = next.Add(1) - 1 {
				if err := ask(choice.KeyOf(number), choice.Value()); err != nil {
					Fail("key %d cannot be put: %v", number, err)
				}
			}
		})
	}
	running.Wait()
}
