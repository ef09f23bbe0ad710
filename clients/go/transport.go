package kvorum

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"os"
	"time"
)

const (
	idleMax      = 20 * time.Second
	headBytesMax = 64 << 10
)

// connectError says that there is no connection, so that nothing was sent.
type connectError struct {
	err error
	// isLasting says that the next attempt would fail in the same way: the two do not trust each
	// other.
	isLasting bool
}

func (e *connectError) Error() string { return e.err.Error() }
func (e *connectError) Unwrap() error { return e.err }

func newTransport(options Options) (*http.Transport, error) {
	config := &tls.Config{NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12}
	if options.CAFile != "" {
		pem, err := os.ReadFile(options.CAFile)
		if err != nil {
			return nil, argumentError("the file of authorities: %v", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, argumentError("%s has no certificate", options.CAFile)
		}
	}
	config.ClientSessionCache = tls.NewLRUClientSessionCache(0)
	dial := dialler{timeout: options.ConnectTimeout, config: config}
	return &http.Transport{
		DialContext:            dial.plain,
		DialTLSContext:         dial.secure,
		MaxIdleConnsPerHost:    options.Connections,
		IdleConnTimeout:        idleMax,
		DisableCompression:     true,
		MaxResponseHeaderBytes: headBytesMax,
	}, nil
}

type dialler struct {
	timeout time.Duration
	config  *tls.Config
}

func (d dialler) plain(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	connection, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, &connectError{err: err}
	}
	return connection, nil
}

func (d dialler) secure(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	plain, err := d.plain(ctx, network, address)
	if err != nil {
		return nil, err
	}
	config := d.config.Clone()
	config.ServerName, _, _ = net.SplitHostPort(address)
	secure := tls.Client(plain, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		plain.Close()
		var distrusted *tls.CertificateVerificationError
		return nil, &connectError{err: err, isLasting: errors.As(err, &distrusted) || isAlert(err)}
	}
	return secure, nil
}

// isAlert says whether the node ended the handshake with a reason.
func isAlert(err error) bool {
	var failed *net.OpError
	return errors.As(err, &failed) && failed.Op == "remote error"
}
