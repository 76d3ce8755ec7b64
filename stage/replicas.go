package stage

// Replicas is how many copies of a stage there are. A batch travels by a route,
// which leads through one replica of each stage; with k replicas the routes are
// dealt out to them in turn. Nothing else in Leat computes which replica a route
// leads through.
//
// The zero value means one.
type Replicas int

// For returns the number of the replica that a route leads through.
func (k Replicas) For(route int) int { return route % int(max(1, k)) }

// Rank returns how many lower-numbered routes lead through the same replica. A
// replica keeps the pages of its routes one route after another, in this order.
func (k Replicas) Rank(route int) int { return route / int(max(1, k)) }

// Meets reports whether some of so many routes leads through replica i of k and
// replica j of others.
func (k Replicas) Meets(i int, others Replicas, j, routes int) bool {
	for route := range routes {
		if k.For(route) == i && others.For(route) == j {
			return true
		}
	}
	return false
}
