// Go's redigo.
package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/gomodule/redigo/redis"
)

func connect() redis.Conn {
	connection, err := redis.Dial("tcp", "127.0.0.1:"+os.Args[1], redis.DialPassword(os.Args[2]))
	if err != nil {
		panic(err)
	}
	return connection
}

func do(connection redis.Conn, command string, words ...interface{}) interface{} {
	reply, err := connection.Do(command, words...)
	if err != nil {
		panic(err)
	}
	return reply
}

func main() {
	one, other := connect(), connect()
	fmt.Println(do(one, "PING"))
	lease := do(one, "LOCK.ACQUIRE", "orders", 30000).([]interface{})
	fmt.Println(len(lease))
	if do(other, "LOCK.ACQUIRE", "orders", 30000) == nil {
		fmt.Println("nil")
	}
	fmt.Println(do(one, "LOCK.RELEASE", "orders", lease[0]))
	fmt.Println(do(one, "LIMIT.TAKE", "catalog").([]interface{})[0])
	_, err := one.Do("LOCK.ACQUIRE", "orders")
	fmt.Println(strings.SplitN(err.Error(), " ", 2)[0])
}
