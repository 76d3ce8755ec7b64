module github.com/leat-dev/leat

go 1.26
