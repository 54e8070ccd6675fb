package upgrade

import "testing"

func FuzzFormat(f *testing.F) {
	f.Add([]byte(old))
	f.Add([]byte(`{"formatVersion":2,"x":[{"y":null}]}`))
	f.Add([]byte(`{"formatVersion":1e0}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		n, members, err := format(b)
		if err == nil && (n < 1 || members == nil) {
			t.Fatalf("%q has format %d", b, n)
		}
		if err := Check("d", b); err == nil && n != Format {
			t.Fatalf("%q is taken with format %d", b, n)
		}
	})
}
