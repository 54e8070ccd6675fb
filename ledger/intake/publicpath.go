package intake

import "strings"

// publicMembers are the members of requests whose own members are public.
var publicMembers = map[string]bool{"source": true, "action": true, "subject": true, "contract": true, "refs": true, "run": true, "reasonCodes": true}

// publicPath shortens a JSON pointer into a request to what may be shown: names
// within a private value are part of it, and so may be those within a member that
// no request has.
func publicPath(path string) string {
	first, rest, deeper := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if !deeper || publicMembers[first] {
		return path
	}
	if first == "readback" {
		second, _, _ := strings.Cut(rest, "/")
		return "/readback/" + second
	}
	return "/" + first
}
