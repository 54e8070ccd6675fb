// Package vectors runs the files in testdata/vectors against the packages that
// implement the formats. The files are made by a second implementation in
// another language and by hand, never by the code under test; see
// testdata/vectors/README.md.
package vectors
