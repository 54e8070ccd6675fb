package backup

import (
	"archive/tar"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
)

// Read reads a backup to its end and gives each of its files to put, in order,
// but the manifest. It is nil only if the backup is whole: every file has the
// digest that the manifest says, and nothing is missing or more. put may have been
// called with files of a backup that is then refused.
func Read(r io.Reader, put func(name string, data []byte) error) (*Manifest, error) {
	t := tar.NewReader(r)
	var files []File
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil, errors.New("the backup is not whole: it ends without its manifest")
		}
		if err != nil {
			return nil, fmt.Errorf("read the backup after %d files: %w", len(files), err)
		}
		most, ok := allowed(h.Name)
		if h.Typeflag != tar.TypeReg || !ok {
			return nil, fmt.Errorf("file %d is %q of type %q: no backup holds that", len(files)+1, h.Name, h.Typeflag)
		}
		if h.Size > most {
			return nil, fmt.Errorf("%s has %d bytes, at most %d are lawful", h.Name, h.Size, most)
		}
		data := make([]byte, h.Size)
		if _, err := io.ReadFull(t, data); err != nil {
			return nil, fmt.Errorf("read %s: %w", h.Name, err)
		}
		if h.Name == manifestName {
			return finish(t, files, data)
		}
		if len(files) >= maxFiles {
			return nil, fmt.Errorf("over %d files", maxFiles)
		}
		files = append(files, File{Name: h.Name, Size: h.Size, SHA256: digest(sha256.Sum256(data))})
		if err := put(h.Name, data); err != nil {
			return nil, err
		}
	}
}

// finish compares what was read with the manifest.
func finish(t *tar.Reader, files []File, data []byte) (*Manifest, error) {
	m, err := parseManifest(data)
	if err != nil {
		return nil, err
	}
	if _, err := t.Next(); !errors.Is(err, io.EOF) {
		return nil, errors.Join(errors.New("there is more behind the manifest"), err)
	}
	for i := range min(len(files), len(m.Files)) {
		got, want := files[i], m.Files[i]
		switch {
		case got.Name != want.Name:
			return nil, fmt.Errorf("file %d is %s, the manifest has %s", i+1, got.Name, want.Name)
		case got != want:
			return nil, fmt.Errorf("%s has %d bytes with SHA-256 %s, expected %d with %s", got.Name, got.Size, got.SHA256, want.Size, want.SHA256)
		}
	}
	if len(files) != len(m.Files) {
		return nil, fmt.Errorf("the backup has %d files, the manifest %d", len(files), len(m.Files))
	}
	return m, nil
}
