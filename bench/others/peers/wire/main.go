// wire sends requests to servers of simple protocols (Redis, memcached, HTTP) in
// a closed loop. It uses one thread with epoll and no allocation per request,
// which costs about as much as wrk without a script, and less than wrk with one.
package main

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"net"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"kvorum.invalid/peers/figures"
)

// The longest expected response.
const answerBytesMax = 4096

// connection has one request in flight, unless it is idle at the end of a fill.
type connection struct {
	socket   int
	address  string
	choice   *figures.Choice
	request  []byte
	received []byte
	sent     time.Time
}

// generator holds all connections and the figures.
type generator struct {
	options     figures.Options
	build       func(request, key, value []byte) []byte
	answer      answer
	connections []connection
	poll        int
	figures     figures.Figures
	filled      uint64 // keys that were sent in a fill
	idle        int    // connections without a request in a fill
}

func main() {
	name := flag.String("protocol", "http", "redis, redis-wait, memcached or http")
	query := flag.String("query", "", "what follows the key in the HTTP target, such as &ack=2&from=3")
	create := flag.Bool("create", false, "HTTP: put only keys without a value")
	options := figures.ParseOptions()
	putFields := ""
	if *create {
		putFields = "If-None-Match: *\r\n"
	}
	known := protocols(*query, putFields)
	chosen, ok := known[*name]
	if !ok {
		figures.Fail("-protocol is %q: give one of %s", *name, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
	}
	generator := &generator{options: options, build: chosen.get, answer: chosen.getAnswer}
	if options.Put {
		generator.build, generator.answer = chosen.put, chosen.putAnswer
	}
	runtime.LockOSThread()
	if err := generator.run(); err != nil {
		figures.Fail("%v", err)
	}
}

func (generator *generator) run() error {
	var err error
	if generator.poll, err = syscall.EpollCreate1(0); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	generator.connections = make([]connection, generator.options.Connections)
	for number := range generator.connections {
		if err := generator.connect(number); err != nil {
			return err
		}
	}
	for number := range generator.connections {
		if err := generator.send(&generator.connections[number], time.Now()); err != nil {
			return err
		}
	}
	if generator.options.Fill {
		return generator.turns(func(time.Time) bool { return generator.idle == len(generator.connections) })
	}
	warm := time.Now().Add(generator.options.WarmUp)
	if err := generator.turns(func(now time.Time) bool { return now.After(warm) }); err != nil {
		return err
	}
	generator.figures.Begin()
	began := time.Now()
	end := began.Add(generator.options.Duration)
	err = generator.turns(func(now time.Time) bool { return now.After(end) })
	if err == nil {
		generator.figures.End(time.Since(began))
	}
	return err
}

func (generator *generator) connect(number int) error {
	address := generator.options.Addresses[number%len(generator.options.Addresses)]
	resolved, err := net.ResolveTCPAddr("tcp4", address)
	if err != nil {
		return fmt.Errorf("%s: %w", address, err)
	}
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	target := &syscall.SockaddrInet4{Port: resolved.Port}
	copy(target.Addr[:], resolved.IP.To4())
	event := syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(number)}
	err = errors.Join(
		syscall.Connect(socket, target),
		syscall.SetsockoptInt(socket, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1),
		syscall.SetNonblock(socket, true),
		syscall.EpollCtl(generator.poll, syscall.EPOLL_CTL_ADD, socket, &event),
	)
	if err != nil {
		return fmt.Errorf("%s cannot be reached: %w", address, err)
	}
	generator.connections[number] = connection{
		socket:   socket,
		address:  address,
		choice:   figures.NewChoice(generator.options.Keys, number),
		received: make([]byte, 0, answerBytesMax),
	}
	return nil
}

// turns handles the connections until `over` returns true.
func (generator *generator) turns(over func(now time.Time) bool) error {
	events := make([]syscall.EpollEvent, len(generator.connections))
	for !over(time.Now()) {
		count, err := syscall.EpollWait(generator.poll, events, 10)
		if err != nil && !errors.Is(err, syscall.EINTR) {
			return fmt.Errorf("epoll: %w", err)
		}
		for _, event := range events[:max(count, 0)] {
			if err := generator.receive(&generator.connections[event.Fd]); err != nil {
				return err
			}
		}
	}
	return nil
}

// receive reads bytes, and sends the next request if the response is complete.
func (generator *generator) receive(connection *connection) error {
	room := connection.received[len(connection.received):cap(connection.received)]
	count, err := syscall.Read(connection.socket, room)
	switch {
	case errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EINTR):
		return nil
	case err != nil:
		return fmt.Errorf("%s: %w", connection.address, err)
	case count == 0:
		return fmt.Errorf("%s closed a connection, or its response has more than %d bytes", connection.address, answerBytesMax)
	}
	connection.received = connection.received[:len(connection.received)+count]
	length, good := generator.answer(connection.received)
	if length == 0 {
		return nil
	}
	now := time.Now()
	if good && length == len(connection.received) {
		generator.figures.Answered(now.Sub(connection.sent))
	} else if err := fmt.Errorf("%s answered %q", connection.address, connection.received); generator.options.Fill {
		return err
	} else {
		generator.figures.Failed(err)
	}
	connection.received = connection.received[:0]
	return generator.send(connection, now)
}

func (generator *generator) send(connection *connection, now time.Time) error {
	var key []byte
	if !generator.options.Fill {
		key = connection.choice.Key()
	} else if generator.filled < generator.options.Keys {
		key = connection.choice.KeyOf(generator.filled)
		generator.filled++
	} else {
		generator.idle++
		return nil
	}
	var value []byte
	if generator.options.Put {
		value = connection.choice.Value()
	}
	connection.request = generator.build(connection.request[:0], key, value)
	connection.sent = now
	// The socket's buffer is empty, so a request of some hundred bytes fits.
	count, err := syscall.Write(connection.socket, connection.request)
	if err == nil && count < len(connection.request) {
		err = errors.New("a request was written only in part")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", connection.address, err)
	}
	return nil
}
