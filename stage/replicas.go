package stage

// Replicas is the number of replicas of a stage. If stages have replicas, each batch takes
// a route, which leads through one replica of each stage: with k replicas, route r leads
// through replica r mod k. Everything in this module that needs the replica on a route
// calls these methods.
//
// The zero value means one replica.
type Replicas int

// For returns the number of the replica on a route.
func (k Replicas) For(route int) int { return route % int(max(1, k)) }

// rank returns how many routes with lower numbers lead through the same replica. A replica
// keeps the pages of its routes one after the other in that order.
func (k Replicas) rank(route int) int { return route / int(max(1, k)) }

// Meets reports whether one of the routes leads through both replica i of a stage with k
// replicas and replica j of a stage with others. routes is the number of routes.
func (k Replicas) Meets(i int, others Replicas, j, routes int) bool {
	for route := range routes {
		if k.For(route) == i && others.For(route) == j {
			return true
		}
	}
	return false
}
