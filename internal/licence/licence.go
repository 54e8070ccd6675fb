// Package licence tells under which licence the modules of a build are, and writes
// the notices that go with a release.
//
// It reads the licence files at the root of each module and knows the texts of the
// licences that this project takes. What it does not know it does not guess.
package licence

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Allowed are the licences, by SPDX id, under which a module may be in what is
// shipped: all let the program be passed on under any terms, with the notice kept.
// MPL-2.0 asks besides that its files can be had as source: they are taken as they
// are, and the notices name module and version, by which everyone gets them.
var Allowed = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MPL-2.0"}

// A Module is one of a build.
type Module struct {
	Path, Version string
	// Dir is where its source is.
	Dir string
	// Licences are the SPDX ids of its files, each once, in order; "" among them for
	// a text that is not known.
	Licences []string
	// Texts are the licence and notice files, by name.
	Texts map[string]string
}

var (
	licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|unlicen[cs]e)([.-].*)?$`)
	noticeFile  = regexp.MustCompile(`(?i)^(notice|patents|copyright)([.-].*)?$`)
	code        = regexp.MustCompile(`(?i)\.(go|docs)$`) // of code about licences, and of documentation
)

// maxTextBytes bounds a licence file; the longest known has 36 KiB.
const maxTextBytes = 256 << 10

// Read reads the licences of a module in dir.
func Read(path, version, dir string) (*Module, error) {
	m := &Module{Path: path, Version: version, Dir: dir, Texts: map[string]string{}}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("licences of %s: %w", path, err)
	}
	for _, e := range entries {
		name := e.Name()
		isLicence := licenceFile.MatchString(name)
		if !e.Type().IsRegular() || code.MatchString(name) || !isLicence && !noticeFile.MatchString(name) {
			continue
		}
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			return nil, fmt.Errorf("licences of %s: %w", path, err)
		}
		b, err := io.ReadAll(io.LimitReader(f, maxTextBytes+1))
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		if err != nil || len(b) > maxTextBytes {
			return nil, fmt.Errorf("licences of %s: %s is too long or cannot be read: %w", path, name, err)
		}
		m.Texts[name] = string(b)
		if isLicence {
			m.Licences = append(m.Licences, Identify(string(b))...)
		}
	}
	slices.Sort(m.Licences)
	m.Licences = slices.Compact(m.Licences)
	return m, nil
}

// Refused says why a module may not be in what is shipped, "" if it may.
func (m *Module) Refused() string {
	if len(m.Licences) == 0 {
		return "it has no licence file"
	}
	for _, l := range m.Licences {
		switch {
		case l == "":
			return "it has a licence text that is not known: read it, and teach internal/licence if it may be taken"
		case !slices.Contains(Allowed, l):
			return "its licence is " + l + ", which is not in internal/licence.Allowed"
		}
	}
	return ""
}

// knownText are words of each licence that no other one has all of, in lower case
// with single spaces and without punctuation.
var knownText = []struct {
	id    string
	all   []string
	never []string
}{
	{"Apache-2.0", []string{"apache license", "version 2 0 january 2004", "grant of patent license"}, nil},
	{"Apache-2.0", []string{"licensed under the apache license version 2 0", "you may obtain a copy of the license at"}, []string{"grant of patent license"}},
	{"AGPL-3.0", []string{"gnu affero general public license version 3 19 november 2007"}, nil},
	{"LGPL-3.0", []string{"gnu lesser general public license version 3 29 june 2007"}, nil},
	{"GPL-3.0", []string{"gnu general public license version 3 29 june 2007"}, nil},
	{"GPL-2.0", []string{"gnu general public license version 2 june 1991"}, nil},
	{"MPL-2.0", []string{"mozilla public license version 2 0"}, nil},
	{"BUSL-1.1", []string{"business source license 1 1"}, nil},
	{"BSD-3-Clause", []string{"redistribution and use in source and binary forms", "this software is provided by the copyright holders and contributors as is", "may be used to endorse or promote products"}, []string{"all advertising materials"}},
	{"BSD-2-Clause", []string{"redistribution and use in source and binary forms", "this software is provided by the copyright holders and contributors as is"}, []string{"endorse or promote", "all advertising materials"}},
	{"MIT", []string{"permission is hereby granted free of charge to any person obtaining a copy", "the above copyright notice and this permission notice shall be included"}, nil},
	{"ISC", []string{"permission to use copy modify and or distribute this software for any purpose with or without fee is hereby granted"}, nil},
}

var notWord = regexp.MustCompile(`[^a-z0-9]+`)

// Identify returns the SPDX ids of the licences in a text, "" alone for none that is
// known.
func Identify(text string) []string {
	plain := notWord.ReplaceAllString(strings.ToLower(text), " ")
	// Some spell the holder out where others say "the copyright holders".
	plain = regexp.MustCompile(`this software is provided by .{1,120}? as is`).ReplaceAllString(plain, "this software is provided by the copyright holders and contributors as is")
	plain = strings.ReplaceAll(plain, "copy modify and distribute this software for any purpose", "copy modify and or distribute this software for any purpose")
	var out []string
	for _, k := range knownText {
		if !slices.ContainsFunc(k.all, func(s string) bool { return !strings.Contains(plain, s) }) &&
			!slices.ContainsFunc(k.never, func(s string) bool { return strings.Contains(plain, s) }) {
			out = append(out, k.id)
		}
	}
	if len(out) == 0 {
		return []string{""}
	}
	return out
}

// WriteNotices writes the notices of all modules: what is shipped under which
// licence, and the texts that must go with it. The same modules give the same bytes.
func WriteNotices(w io.Writer, modules []*Module) error {
	modules = slices.Clone(modules)
	slices.SortFunc(modules, func(a, b *Module) int { return strings.Compare(a.Path, b.Path) })
	var out strings.Builder
	out.WriteString("Third-party software in the programs of Counterfoil\n\n")
	for _, m := range modules {
		fmt.Fprintf(&out, "%s %s: %s\n", m.Path, m.Version, strings.Join(m.Licences, ", "))
	}
	for _, m := range modules {
		names := make([]string, 0, len(m.Texts))
		for name := range m.Texts {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			fmt.Fprintf(&out, "\n%s\n%s %s: %s\n\n%s\n", strings.Repeat("=", 78), m.Path, m.Version, name, strings.TrimSpace(m.Texts[name]))
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}
