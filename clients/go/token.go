package kvorum

import (
	"os"
	"strings"
	"sync"
	"time"
)

const tokenBytesMax = 4096

// tokenSource gives the token of each request. A file is read again when it has changed.
type tokenSource struct {
	file string

	mutex    sync.Mutex
	token    string
	modified time.Time
}

func newTokenSource(token, file string) (*tokenSource, error) {
	if token != "" {
		return &tokenSource{token: token}, checkToken(token)
	}
	source := &tokenSource{file: file}
	if file != "" {
		if _, err := source.current(); err != nil {
			return nil, err
		}
	}
	return source, nil
}

// current returns the token; none if the client has none.
func (s *tokenSource) current() (string, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.file == "" {
		return s.token, nil
	}
	info, err := os.Stat(s.file)
	if err != nil {
		return "", argumentError("the file of the token: %v", err)
	}
	if s.token != "" && info.ModTime().Equal(s.modified) {
		return s.token, nil
	}
	content, err := os.ReadFile(s.file)
	if err != nil {
		return "", argumentError("the file of the token: %v", err)
	}
	first, _, _ := strings.Cut(string(content), "\n")
	token := strings.TrimSpace(first)
	if err := checkToken(token); err != nil {
		return "", err
	}
	s.token, s.modified = token, info.ModTime()
	return token, nil
}

// checkToken says whether a header can carry a text as a token (RFC 6750). It does not show the text.
func checkToken(token string) error {
	for _, c := range strings.TrimRight(token, "=") {
		isPlain := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("-._~+/", c)
		if !isPlain {
			return argumentError("a token is letters, digits and signs of -._~+/, with = at its end only")
		}
	}
	if strings.HasPrefix(token, "=") || len(token) == 0 || len(token) > tokenBytesMax {
		return argumentError("a token has 1 to %d bytes, this one %d", tokenBytesMax, len(token))
	}
	return nil
}
