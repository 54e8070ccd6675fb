package licence

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	mit = `Copyright (c) 2020 A. Permission is hereby granted, free of charge, to any person obtaining
a copy of this software … The above copyright notice and this permission notice shall be included in all copies.`
	bsd2 = `Redistribution and use in source and binary forms, with or without modification, are permitted.
THIS SOFTWARE IS PROVIDED BY THE AUTHOR AND CONTRIBUTORS "AS IS" AND ANY EXPRESS`
	bsd3   = bsd2 + ` Neither the name may be used to endorse or promote products derived`
	bsd4   = bsd3 + ` All advertising materials mentioning features`
	gpl3   = "GNU GENERAL PUBLIC LICENSE\n Version 3, 29 June 2007"
	agpl   = "GNU AFFERO GENERAL PUBLIC LICENSE\n Version 3, 19 November 2007"
	mpl    = "Mozilla Public License Version 2.0 … the GNU Affero General Public License, Version 3.0"
	isc    = "Permission to use, copy, modify, and/or distribute this software for any purpose with or without fee is hereby granted"
	apache = "Apache License\nVersion 2.0, January 2004\n … 3. Grant of Patent License."
)

func TestIdentify(t *testing.T) {
	for text, want := range map[string]string{
		mit: "MIT", bsd2: "BSD-2-Clause", bsd3: "BSD-3-Clause", gpl3: "GPL-3.0", agpl: "AGPL-3.0", mpl: "MPL-2.0", isc: "ISC", apache: "Apache-2.0",
		apache + "\n----\n" + mit: "Apache-2.0 MIT",
		"Licensed under the Apache License, Version 2.0; You may obtain a copy of the License at": "Apache-2.0",
		bsd4:                                  "",
		"All rights reserved.":                "",
		"":                                    "",
		"We love the MIT licence":             "",
		strings.ToUpper(mit):                  "MIT",
		strings.ReplaceAll(mit, " ", "\n// "): "MIT",
	} {
		if got := strings.Join(Identify(text), " "); got != want {
			t.Errorf("%.60q: %q, want %q", text, got, want)
		}
	}
}

func module(t *testing.T, files map[string]string) *Module {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m, err := Read("example.com/m", "v1.0.0", dir)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestWhatMayBeShipped(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		why   string
	}{
		"allowed":             {map[string]string{"LICENSE": mit, "NOTICE": "n", "license.go": "package m", "LICENSE.docs": "CC-BY"}, ""},
		"two":                 {map[string]string{"LICENSE-APACHE": apache, "LICENSE-MIT": mit}, ""},
		"none":                {map[string]string{"NOTICE": mit}, "no licence file"},
		"copyleft":            {map[string]string{"COPYING": gpl3}, "GPL-3.0"},
		"one of two":          {map[string]string{"LICENSE": mit, "COPYING": agpl}, "AGPL-3.0"},
		"one that is unknown": {map[string]string{"LICENSE": mit, "LICENSE.txt": "ask us"}, "not known"},
	} {
		if got := module(t, c.files).Refused(); got != c.why && (c.why == "" || !strings.Contains(got, c.why)) {
			t.Errorf("%s: %q, want %q", name, got, c.why)
		}
	}
	for _, l := range Allowed {
		if strings.Contains(l, "GPL") || !slices.ContainsFunc(knownText, func(k struct {
			id         string
			all, never []string
		}) bool {
			return k.id == l
		}) {
			t.Errorf("%s is allowed and not known", l)
		}
	}
}

func TestNoticesHaveEveryText(t *testing.T) {
	b := module(t, map[string]string{"LICENSE": mit, "NOTICE": "made by B"})
	b.Path = "example.com/b"
	a := module(t, map[string]string{"LICENSE": apache})
	var one, two bytes.Buffer
	if err := WriteNotices(&one, []*Module{b, a}); err != nil {
		t.Fatal(err)
	}
	if err := WriteNotices(&two, []*Module{a, b}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"example.com/b v1.0.0: MIT", "example.com/m v1.0.0: Apache-2.0", mit, apache, "made by B"} {
		if !strings.Contains(one.String(), want) {
			t.Errorf("no %q in\n%s", want, one.String())
		}
	}
	if one.String() != two.String() {
		t.Error("the order of modules changes the notices")
	}
}
