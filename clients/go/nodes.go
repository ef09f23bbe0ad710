package kvorum

import (
	"sync"
	"time"
)

const (
	skipFirst = time.Second
	skipMax   = 30 * time.Second
)

// nodeList says which node is asked next: the one that answered last, and then the others in their
// order. Nodes that lately failed are skipped for a while, which means that they are asked last.
type nodeList struct {
	mutex sync.Mutex
	nodes []*node
	// first is the index of the node that answered last.
	first int
}

type node struct {
	url   string
	index int
	// skippedUntil and failures are guarded by the mutex of the list.
	skippedUntil time.Time
	failures     int
}

func newNodeList(urls []string) *nodeList {
	list := &nodeList{}
	for index, url := range urls {
		list.nodes = append(list.nodes, &node{url: url, index: index})
	}
	return list
}

// round returns all nodes in the order in which to ask them now.
func (l *nodeList) round(now time.Time) []*node {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	var ready, skipped []*node
	for i := range l.nodes {
		node := l.nodes[(l.first+i)%len(l.nodes)]
		if now.Before(node.skippedUntil) {
			skipped = append(skipped, node)
		} else {
			ready = append(ready, node)
		}
	}
	return append(ready, skipped...)
}

// answered notes that a node has answered, whatever it said. With success it is asked first from now on.
func (l *nodeList) answered(node *node, success bool) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	node.failures, node.skippedUntil = 0, time.Time{}
	if success {
		l.first = node.index
	}
}

// failed notes that a node refused the connection or was silent.
func (l *nodeList) failed(node *node, now time.Time) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	skip := skipFirst << min(node.failures, 10)
	node.failures++
	node.skippedUntil = now.Add(min(skip, skipMax))
}

// busy notes that a node wants no request for some time.
func (l *nodeList) busy(node *node, now time.Time, retryAfter time.Duration) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	node.skippedUntil = now.Add(min(retryAfter, skipMax))
}
