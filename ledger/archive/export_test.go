package archive

// CodeOf is the code of trouble below.
var CodeOf = codeOf
