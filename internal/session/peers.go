package session

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"counterfoil/internal/jsonrpc"
	"counterfoil/internal/toolcall"
)

// agentOf names the client by the parameters of its initialize request.
func agentOf(params []byte) string {
	f, _ := jsonrpc.Fields(params, "clientInfo")
	return toolcall.Agent(f["clientInfo"])
}

// learnServer reads the result of initialize.
func (c *connection) learnServer(result []byte) {
	f, _ := jsonrpc.Fields(result, "protocolVersion", "serverInfo")
	if p := toolcall.Protocol(jsonrpc.Text(f["protocolVersion"])); p != "" {
		c.protocol = p
	}
	c.implementation = toolcall.Implementation(f["serverInfo"])
}

// learnTools reads the annotations of a tools/list result.
func (c *connection) learnTools(result []byte) {
	f, _ := jsonrpc.Fields(result, "tools")
	var tools []jsontext.Value
	if f["tools"] == nil || json.Unmarshal(f["tools"], &tools, jsonrpc.Lax...) != nil {
		return
	}
	for _, t := range tools {
		f, _ := jsonrpc.Fields(t, "name", "annotations")
		name := jsonrpc.Text(f["name"])
		if _, known := c.tools[name]; name == "" || !known && len(c.tools) >= MaxTools {
			continue
		}
		c.tools[name] = toolcall.EffectMode(f["annotations"])
	}
}

// effectMode is what the server said about the tool that it would do, in the
// list that the client had seen last.
func (c *connection) effectMode(tool string) string {
	if mode := c.tools[tool]; mode != "" {
		return mode
	}
	return toolcall.Unspecified
}
