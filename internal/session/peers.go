package session

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// agentOf names the client by the parameters of its initialize request.
func agentOf(params []byte) string {
	f, _ := fields(params, "clientInfo")
	if s := nameVersion(f["clientInfo"]); s != "" {
		return fit("agent:"+s, "")
	}
	return "agent:unknown"
}

// learnServer reads the result of initialize.
func (c *connection) learnServer(result []byte) {
	f, _ := fields(result, "protocolVersion", "serverInfo")
	if v := text(f["protocolVersion"]); v != "" {
		c.protocol = fit("mcp/"+v, "")
	}
	c.implementation = fit(nameVersion(f["serverInfo"]), "unknown")
}

// nameVersion is NAME@VERSION, or NAME if no version is given.
func nameVersion(info []byte) string {
	f, _ := fields(info, "name", "version")
	name, version := text(f["name"]), text(f["version"])
	if name == "" || version == "" {
		return name
	}
	return name + "@" + version
}

// learnTools reads the annotations of a tools/list result.
func (c *connection) learnTools(result []byte) {
	f, _ := fields(result, "tools")
	var tools []jsontext.Value
	if f["tools"] == nil || json.Unmarshal(f["tools"], &tools, lax...) != nil {
		return
	}
	for _, t := range tools {
		f, _ := fields(t, "name", "annotations")
		name := text(f["name"])
		if _, known := c.tools[name]; name == "" || !known && len(c.tools) >= MaxTools {
			continue
		}
		c.tools[name] = effectModeOf(f["annotations"])
	}
}

// effectMode is what the server said about the tool that it would do, in the
// list that the client had seen last. It is a hint of the server and proves
// nothing.
func (c *connection) effectMode(tool string) string {
	if mode := c.tools[tool]; mode != "" {
		return mode
	}
	return unspecified
}

const unspecified = "unspecified"

// effectModeOf words tool annotations. Only what is said counts, never a
// default.
func effectModeOf(annotations []byte) string {
	f, _ := fields(annotations, "readOnlyHint", "destructiveHint", "idempotentHint")
	idempotent := string(f["idempotentHint"]) == "true"
	mode := ""
	switch {
	case string(f["readOnlyHint"]) == "true":
		return "read_only"
	case string(f["destructiveHint"]) == "true":
		mode = "destructive"
	case string(f["destructiveHint"]) == "false":
		mode = "additive"
	case idempotent:
		return "idempotent"
	default:
		return unspecified
	}
	if idempotent {
		mode += "_idempotent"
	}
	return mode
}
