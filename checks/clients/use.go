// Uses examples/client.go, which lies in the folder kvorum beside it: go run use.go URL ...
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"example/kvorum"
)

func expect(found, wanted any) {
	if fmt.Sprint(found) != fmt.Sprint(wanted) {
		log.Fatalf("expected %v, but it is %v", wanted, found)
	}
}

func main() {
	nodes := os.Args[1:]
	client := kvorum.Client{Nodes: nodes}
	client.HTTP.Timeout = 5 * time.Second
	// They ask the node first that may be stopped.
	reader, writer := kvorum.Client{HTTP: client.HTTP}, kvorum.Client{HTTP: client.HTTP}
	for _, node := range nodes {
		reader.Nodes = append([]string{node}, reader.Nodes...)
	}
	writer.Nodes = reader.Nodes
	behindOther := kvorum.Client{Nodes: append([]string{os.Getenv("OTHER_SERVER")}, nodes...)}
	send := func(client *kvorum.Client, method, target string, body []byte) (int, []byte) {
		status, content, err := client.Send(method, target, body)
		expect(err, nil)
		return status, content
	}
	entity, value := kvorum.Entity("go €/+&%\x00\xff"), []byte("\x00 is a byte, too")
	status, _ := send(&writer, "PUT", entity+"&ttl=60", value)
	expect(status, 201)
	for _, client := range []*kvorum.Client{&client, &reader, &behindOther} {
		status, found := send(client, "GET", entity, nil)
		expect([]any{status, found}, []any{200, value})
	}
	// It stays with the node that answered the read.
	status, _ = send(&behindOther, "PUT", entity, value)
	expect(status, 201)
	status, _ = send(&client, "DELETE", entity, nil)
	expect(status, 202)
	status, _ = send(&client, "GET", entity, nil)
	expect(status, 404)

	lines := `{"op":"put","key":"go","value":"1"}` + "\n" + `{"op":"get","key":"go"}` + "\n" + `{"op":"delete","key":"go"}` + "\n"
	status, body := send(&client, "POST", "/v0/batch", []byte(lines))
	expect(status, 200)
	var answers [3]struct {
		Status int
		Value  string
	}
	for i, line := range strings.Split(strings.TrimSpace(string(body)), "\n") {
		expect(json.Unmarshal([]byte(line), &answers[i]), nil)
	}
	expect(answers, "[{201 } {200 1} {202 }]")

	status, _ = send(&client, "GET", kvorum.Entity(""), nil)
	expect(status, 400)
	other := kvorum.Client{Nodes: []string{os.Getenv("OTHER_SERVER")}}
	for _, method := range []string{"PUT", "GET", "DELETE"} {
		_, _, err := other.Send(method, entity, nil)
		expect(err != nil && strings.HasSuffix(err.Error(), "this is no Kvorum node: status 200"), true)
	}
	all := fmt.Sprintf("&replicas=%d/%d", len(nodes), len(nodes))
	if status, content := send(&client, "PUT", entity+all, value); status != 201 {
		expect(status, 504)
		var problem struct {
			Replicas []struct{ URL, Outcome string }
		}
		expect(json.Unmarshal(content, &problem), nil)
		for _, replica := range problem.Replicas {
			fmt.Println(replica.URL, replica.Outcome)
		}
	}
	fmt.Println("ok")
}
