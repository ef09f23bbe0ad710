// A session store: sessions URL ...
//
// It reads commands and answers each with a line; ../README.md has them. A session is a key of its own
// that expires, so no node has to be asked whether one is over, and none has to clean up.
package main

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"kvorum.dev/kvorum"
)

const prefix, tries = "session/", 5

// repeated repeats a write whose outcome is unknown. That does no harm here: only this write has this
// key, or it only says again what it said before.
func repeated(write func() (kvorum.Written, error)) error {
	for attempt := 1; ; attempt++ {
		_, err := write()
		var unknown *kvorum.UnknownOutcomeError
		if !errors.As(err, &unknown) || attempt == tries {
			return err
		}
	}
}

func userOf(entity *kvorum.Entity, err error) (string, error) {
	var session struct{ User string }
	if errors.Is(err, kvorum.ErrNotFound) {
		return "none", nil
	} else if err == nil {
		err = json.Unmarshal(entity.Value, &session)
	}
	return session.User, err
}

func answer(ctx context.Context, client *kvorum.Client, ttl kvorum.Option, command, argument string) (string, error) {
	key := prefix + argument
	switch command {
	case "login":
		secret := make([]byte, 16) // Nobody can guess it.
		rand.Read(secret)
		id := base64.RawURLEncoding.EncodeToString(secret)
		value, _ := json.Marshal(map[string]string{"user": argument})
		return id, repeated(func() (kvorum.Written, error) { return client.Put(ctx, prefix+id, value, ttl) })
	case "user":
		return userOf(client.Get(ctx, key))
	case "touch":
		// A touch cannot bring back what a logout has ended meanwhile.
		err := repeated(func() (kvorum.Written, error) { return client.Touch(ctx, key, ttl) })
		if over := (*kvorum.ConflictError)(nil); errors.As(err, &over) {
			return "none", nil
		}
		return "ok", err
	case "logout":
		return "ok", repeated(func() (kvorum.Written, error) { return client.Delete(ctx, key) })
	case "list":
		var live []string
		for entity, err := range client.Scan(ctx, kvorum.Prefix(prefix)) {
			user, err := userOf(entity, err)
			if err != nil {
				return "", err
			}
			live = append(live, user+":"+strings.TrimPrefix(entity.Key, prefix))
		}
		return strings.Join(live, " "), nil
	}
	return "error: login USER, user ID, touch ID, logout ID or list", nil
}

func main() {
	client, err := kvorum.New(os.Args[1:], kvorum.Options{Token: os.Getenv("KVORUM_TOKEN")})
	if err != nil {
		log.Fatal(err)
	}
	ttl, err := time.ParseDuration(cmp.Or(os.Getenv("SESSION_SECONDS"), "1800") + "s")
	if err != nil {
		log.Fatal(err)
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		command, argument, _ := strings.Cut(lines.Text(), " ")
		said, err := answer(context.Background(), client, kvorum.TTL(ttl), command, argument)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(said)
	}
}
