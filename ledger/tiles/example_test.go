package tiles_test

import (
	"fmt"

	"counterfoil/ledger/tiles"
)

func ExampleParsePath() {
	p, err := tiles.ParsePath("tile/entries/x001/234.p/5")
	fmt.Println(p.Kind == tiles.Entries, p.Index, p.Width, err)
	_, err = tiles.ParsePath("tile/0/../../.state/treeState")
	fmt.Println(err != nil)
	// Output:
	// true 1234 5 <nil>
	// true
}
