package kvorum

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"testing"
)

// cluster is three nodes that nodes.py runs for a test.
type cluster struct {
	t       *testing.T
	input   io.WriteCloser
	output  *bufio.Reader
	urls    []string
	options Options
}

func startCluster(t *testing.T, arguments ...string) *cluster {
	t.Helper()
	if os.Getenv("KVORUM") == "" {
		t.Skip("KVORUM names the program whose nodes are tested")
	}
	program := os.Getenv("KVORUM_TEST_NODES")
	if program == "" {
		program = "../testing/nodes.py"
	}
	nodes := exec.Command(program, arguments...)
	nodes.Stderr = os.Stderr
	c := &cluster{t: t}
	var err error
	c.input, err = nodes.StdinPipe()
	check(t, err)
	output, err := nodes.StdoutPipe()
	check(t, err)
	c.output = bufio.NewReader(output)
	check(t, nodes.Start())
	t.Cleanup(func() {
		c.input.Close()
		_, _ = io.Copy(io.Discard, c.output)
		check(t, nodes.Wait())
	})
	told := c.answer()
	c.urls, c.options.CAFile, c.options.TokenFile = told.URLs, told.CAFile, told.TokenFile
	return c
}

type told struct {
	URLs      []string `json:"urls"`
	CAFile    string   `json:"ca_file"`
	TokenFile string   `json:"token_file"`
	Error     string   `json:"error"`
}

func (c *cluster) answer() (told told) {
	c.t.Helper()
	line, err := c.output.ReadBytes('\n')
	check(c.t, err)
	check(c.t, json.Unmarshal(line, &told))
	equal(c.t, told.Error, "")
	return told
}

// order has nodes.py do something.
func (c *cluster) order(words string) {
	c.t.Helper()
	_, err := fmt.Fprintln(c.input, words)
	check(c.t, err)
	c.answer()
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer listener.Close()
	return listener.Addr().String()
}

// client makes a client that asks this node first.
func (c *cluster) client(first int) *Client {
	c.t.Helper()
	client, err := New(append(append([]string{}, c.urls[first:]...), c.urls[:first]...), c.options)
	check(c.t, err)
	c.t.Cleanup(func() { client.Close() })
	return client
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal(t testing.TB, found, wanted any) {
	t.Helper()
	if fmt.Sprintf("%#v", found) != fmt.Sprintf("%#v", wanted) {
		t.Fatalf("%#v, and %#v is wanted", found, wanted)
	}
}

// errorOf requires an error of a type.
func errorOf[T error](t testing.TB, err error) T {
	t.Helper()
	var wanted T
	if !errors.As(err, &wanted) {
		t.Fatalf("%T (%v), and %T is wanted", err, err, wanted)
	}
	return wanted
}
