package stream

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
)

// maxPasswordBytes bounds the file of a password.
const maxPasswordBytes = 4 << 10

// WithPassword returns the URLs of an external NATS, separated by commas, each with the
// password of a file. A password on the command line would show in every list of
// processes. Errors never show it.
func WithPassword(urls, passwordFile string) (string, error) {
	if passwordFile == "" {
		return urls, nil
	}
	f, err := os.Open(passwordFile)
	if err != nil {
		return "", fmt.Errorf("password for NATS: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxPasswordBytes+1))
	if err != nil {
		return "", fmt.Errorf("password for NATS: %w", err)
	}
	password := strings.TrimRight(string(b), "\r\n")
	if password == "" || len(b) > maxPasswordBytes || strings.ContainsAny(password, "\r\n") {
		return "", fmt.Errorf("%s holds no password: want one line of at most %d bytes", passwordFile, maxPasswordBytes)
	}
	var out []string
	for s := range strings.SplitSeq(urls, ",") {
		u, err := url.Parse(strings.TrimSpace(s))
		if err != nil || u.Host == "" {
			return "", errors.New("the address of NATS is no URL (hint: nats://USER@HOST:4222)")
		}
		if _, has := u.User.Password(); has || u.User.Username() == "" {
			return "", errors.New("a password file for NATS needs URLs with a user and no password (hint: nats://USER@HOST:4222)")
		}
		u.User = url.UserPassword(u.User.Username(), password)
		out = append(out, u.String())
	}
	return strings.Join(out, ","), nil
}
