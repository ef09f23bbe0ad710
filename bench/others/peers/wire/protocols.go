package main

import (
	"bytes"
	"strconv"

	"kvorum.invalid/peers/figures"
)

// answer returns the length of the complete response at the start of the
// received bytes, or 0 if it is incomplete, and whether it is the expected one.
type answer func(received []byte) (length int, good bool)

// protocol appends requests to a buffer and knows their answers.
type protocol struct {
	put, get             func(request, key, value []byte) []byte
	putAnswer, getAnswer answer
}

var (
	keyLength   = strconv.Itoa(figures.KeyBytes)
	valueLength = strconv.Itoa(figures.ValueBytes)
	lineEnd     = []byte("\r\n")
)

// protocols returns the protocols by the names that -protocol takes; only HTTP
// uses `query` and the header fields of its puts.
func protocols(query, putFields string) map[string]protocol {
	redis := protocol{put: redisSet, putAnswer: redisStored, get: redisGet, getAnswer: redisValue}
	wait := redis
	wait.put, wait.putAnswer = redisSetWait, redisWaited
	return map[string]protocol{
		"redis":      redis,
		"redis-wait": wait,
		"memcached":  {put: memcachedSet, putAnswer: memcachedStored, get: memcachedGet, getAnswer: memcachedValue},
		"http":       http(query, putFields),
	}
}

// line returns the length of the first line including its end, or 0.
func line(received []byte) int {
	if end := bytes.Index(received, lineEnd); end >= 0 {
		return end + len(lineEnd)
	}
	return 0
}

func redisSet(request, key, value []byte) []byte {
	request = append(request, "*3\r\n$3\r\nSET\r\n$"+keyLength+"\r\n"...)
	request = append(request, key...)
	request = append(request, "\r\n$"+valueLength+"\r\n"...)
	request = append(request, value...)
	return append(request, lineEnd...)
}

// One of the replicas must answer within ten seconds. Both commands are sent
// together, so that the write takes one round trip.
func redisSetWait(request, key, value []byte) []byte {
	return append(redisSet(request, key, value), "*3\r\n$4\r\nWAIT\r\n$1\r\n1\r\n$5\r\n10000\r\n"...)
}

func redisGet(request, key, _ []byte) []byte {
	request = append(request, "*2\r\n$3\r\nGET\r\n$"+keyLength+"\r\n"...)
	request = append(request, key...)
	return append(request, lineEnd...)
}

func redisStored(received []byte) (int, bool) {
	length := line(received)
	return length, bytes.HasPrefix(received, []byte("+OK"))
}

func redisWaited(received []byte) (int, bool) {
	stored, good := redisStored(received)
	if stored == 0 {
		return 0, false
	}
	waited := line(received[stored:])
	if waited == 0 {
		return 0, false
	}
	reply := received[stored : stored+waited]
	return stored + waited, good && reply[0] == ':' && reply[1] != '0'
}

func redisValue(received []byte) (int, bool) {
	head := line(received)
	if head == 0 {
		return 0, false
	}
	if !bytes.HasPrefix(received, []byte("$"+valueLength+"\r\n")) {
		return head, false
	}
	return whole(received, head+figures.ValueBytes+len(lineEnd))
}

func memcachedSet(request, key, value []byte) []byte {
	request = append(append(request, "set "...), key...)
	request = append(request, " 0 0 "+valueLength+"\r\n"...)
	request = append(request, value...)
	return append(request, lineEnd...)
}

func memcachedGet(request, key, _ []byte) []byte {
	request = append(append(request, "get "...), key...)
	return append(request, lineEnd...)
}

func memcachedStored(received []byte) (int, bool) {
	return line(received), bytes.HasPrefix(received, []byte("STORED"))
}

func memcachedValue(received []byte) (int, bool) {
	head := line(received)
	if head == 0 {
		return 0, false
	}
	if !bytes.HasPrefix(received, []byte("VALUE ")) {
		return head, false
	}
	return whole(received, head+figures.ValueBytes+len("\r\nEND\r\n"))
}

func http(query, putFields string) protocol {
	target := func(request []byte, method string, key []byte) []byte {
		request = append(append(request, method...), " /v0/entity?id="...)
		request = append(append(request, key...), query...)
		return append(request, " HTTP/1.1\r\nHost: 127.0.0.1\r\n"...)
	}
	return protocol{
		put: func(request, key, value []byte) []byte {
			request = append(target(request, "PUT", key), putFields+"Content-Length: "+valueLength+"\r\n\r\n"...)
			return append(request, value...)
		},
		get: func(request, key, _ []byte) []byte {
			return append(target(request, "GET", key), lineEnd...)
		},
		putAnswer: func(received []byte) (int, bool) {
			length, _ := httpAnswer(received)
			return length, bytes.HasPrefix(received, []byte("HTTP/1.1 201"))
		},
		getAnswer: func(received []byte) (int, bool) {
			length, body := httpAnswer(received)
			return length, bytes.HasPrefix(received, []byte("HTTP/1.1 200")) && body == figures.ValueBytes
		},
	}
}

// httpAnswer returns the lengths of a response and of its body. A response
// without Content-Length has no body.
func httpAnswer(received []byte) (length, body int) {
	end := bytes.Index(received, []byte("\r\n\r\n"))
	if end < 0 {
		return 0, 0
	}
	const name = "content-length:"
	for at := line(received); at < end; at += line(received[at:]) {
		field := received[at:end]
		if len(field) > len(name) && bytes.EqualFold(field[:len(name)], []byte(name)) {
			for _, symbol := range bytes.TrimLeft(field[len(name):], " ") {
				if symbol < '0' || symbol > '9' {
					break
				}
				body = body*10 + int(symbol-'0')
			}
		}
	}
	length, _ = whole(received, end+4+body)
	return length, body
}

func whole(received []byte, length int) (int, bool) {
	if len(received) < length {
		return 0, false
	}
	return length, true
}
