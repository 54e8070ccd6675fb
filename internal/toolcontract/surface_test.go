package toolcontract

import "testing"

func raws(items ...string) (out [][]byte) {
	for _, i := range items {
		out = append(out, []byte(i))
	}
	return out
}

func TestADM18_TheSurfaceIsAsDocumented(t *testing.T) {
	tool := `{"name":"t","inputSchema":{}}`
	s := NewSurface([]Tool{{"t", []byte(tool)}},
		raws(`{"uri":"x:b","name":"b","size":7}`, `{"name":"a","uri":"x:a","mimeType":"text/plain","annotations":{"lastModified":"now"}}`),
		raws(`{"uriTemplate":"x:{y}","name":"n","description":"d"}`),
		raws(`{"name":"p","arguments":[{"name":"q"}],"title":"P"}`, `{"name":"p"}`))
	want := Surface{
		Tools: sum("counterfoil.tools.v1", "t", sum("counterfoil.tool.v1", `{"inputSchema":{},"name":"t"}`)),
		Resources: sum("counterfoil.mcp-resource.v1",
			"x:a", sum("counterfoil.mcp-resource.v1", `{"mimeType":"text/plain","name":"a","uri":"x:a"}`),
			"x:b", sum("counterfoil.mcp-resource.v1", `{"name":"b","uri":"x:b"}`)),
		Templates: sum("counterfoil.mcp-template.v1", "x:{y}", sum("counterfoil.mcp-template.v1", `{"description":"d","name":"n","uriTemplate":"x:{y}"}`)),
		Prompts: sum("counterfoil.mcp-prompt.v1", "p", sum(
			"counterfoil.mcp-prompt.v1", `{"arguments":[{"name":"q"}],"name":"p"}`,
			"counterfoil.mcp-prompt.v1", `{"name":"p"}`)),
	}
	want.Digest = sum("counterfoil.mcp-surface.v1", want.Tools, want.Resources, want.Templates, want.Prompts)
	if s != want {
		t.Errorf("got  %+v\nwant %+v", s, want)
	}
	empty := NewSurface(nil, nil, nil, nil)
	if empty.Resources != sum("counterfoil.mcp-resource.v1") || empty.Digest == s.Digest {
		t.Errorf("%+v", empty)
	}
	odd := NewSurface(nil, raws(`{"uri":7}`, `[]`), nil, nil)
	if want := sum("counterfoil.mcp-resource.v1", "", sum("counterfoil.mcp-resource.v1", `{"uri":7}`, "counterfoil.tool-raw.v1", `[]`)); odd.Resources != want {
		t.Errorf("%s, want %s", odd.Resources, want)
	}
}

func TestADM18_WhatChangesASurface(t *testing.T) {
	surface := func(tool, resource, prompt string) string {
		return NewSurface([]Tool{{"t", []byte(tool)}}, raws(resource), nil, raws(prompt)).Digest
	}
	base := surface(`{"name":"t","description":"d"}`, `{"uri":"x:a","name":"a"}`, `{"name":"p"}`)
	for name, tt := range map[string]struct {
		digest  string
		changes bool
	}{
		"order and space":  {surface(`{ "description":"d","name":"t"}`, `{"name":"a","uri":"x:a"}`, `{"name" : "p"}`), false},
		"presentation":     {surface(`{"name":"t","description":"d","title":"T"}`, `{"uri":"x:a","name":"a","size":9}`, `{"name":"p","title":"P"}`), false},
		"tool description": {surface(`{"name":"t","description":"D"}`, `{"uri":"x:a","name":"a"}`, `{"name":"p"}`), true},
		"resource type":    {surface(`{"name":"t","description":"d"}`, `{"uri":"x:a","name":"a","mimeType":"text/html"}`, `{"name":"p"}`), true},
		"prompt argument":  {surface(`{"name":"t","description":"d"}`, `{"uri":"x:a","name":"a"}`, `{"name":"p","arguments":[]}`), true},
	} {
		if (tt.digest != base) != tt.changes {
			t.Errorf("%s: changes %v, want %v", name, !tt.changes, tt.changes)
		}
	}
}
