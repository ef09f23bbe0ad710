package kvorum

import (
	"encoding/json"
	"errors"
	"time"
	"unicode/utf8"
)

// line is an entity in a scan or the answer of a batch. Bytes that are not UTF-8 are in base64.
type line struct {
	Key         *string `json:"key"`
	KeyBase64   []byte  `json:"key_base64"`
	Value       *string `json:"value"`
	ValueBase64 []byte  `json:"value_base64"`
	Version     uint64  `json:"version,string"`
	Expires     string  `json:"expires"`
	Status      int     `json:"status"`
	// Problem is why an operation of a batch failed.
	Problem json.RawMessage `json:"problem"`
}

func parseLine(text []byte) (*line, error) {
	var parsed line
	if err := json.Unmarshal(text, &parsed); err != nil {
		return nil, err
	}
	return &parsed, nil
}

func (l *line) value() []byte {
	if l.Value != nil {
		return []byte(*l.Value)
	}
	return l.ValueBase64
}

func (l *line) expires() time.Time {
	expires, _ := time.Parse(time.RFC3339, l.Expires)
	return expires
}

func (l *line) entity() (*Entity, error) {
	entity := &Entity{Key: string(l.KeyBase64), Value: l.value(), Version: l.Version, Expires: l.expires()}
	if l.Key != nil {
		entity.Key = *l.Key
	}
	if entity.Key == "" || entity.Version == 0 {
		return nil, errors.New("a line has no key or no version")
	}
	return entity, nil
}

// setBytes sets the field of bytes in a line to send.
func setBytes(fields map[string]any, name, bytes string) {
	if utf8.ValidString(bytes) {
		fields[name] = bytes
	} else {
		fields[name+"_base64"] = []byte(bytes)
	}
}
